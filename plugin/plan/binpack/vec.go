package binpack

import (
	"slices"

	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
)

// Vec is quantities by dimension.
type Vec []int64

// add adds n times o.
func (v Vec) add(o Vec, n int64) {
	for i := range v {
		v[i] += n * o[i]
	}
}

func (v Vec) clone() Vec { return slices.Clone(v) }

// times is how often need fits into v. A dimension that is not asked for does not count, even where it is overdrawn:
// so does the scheduler.
func (v Vec) times(need Vec) int {
	best := int64(1) << 31
	for i, n := range need {
		if n > 0 {
			best = min(best, max(v[i], 0)/n)
		}
	}
	return int(best)
}

// holds says that sum fits into v.
func (v Vec) holds(sum Vec) bool {
	for i, n := range sum {
		if n > 0 && n > v[i] {
			return false
		}
	}
	return true
}

// share is the largest fraction of any resource that need takes of free.
func share(need, free Vec) float64 {
	s := 0.0
	for d, n := range need {
		if n > 0 {
			s = max(s, float64(n)/float64(max(free[d], 1)))
		}
	}
	return s
}

// transposed returns for each of n elements which of the sets have it. It works on blocks of 64 sets and 64 elements.
func transposed(sets []bitset.Set, n int) []bitset.Set {
	words := (len(sets) + 63) / 64
	out, memory := make([]bitset.Set, n), make(bitset.Set, n*words)
	for i := range out {
		out[i] = memory[i*words : (i+1)*words : (i+1)*words]
	}
	var block [64]uint64
	for from := 0; from < len(sets); from += 64 {
		for w := range (n + 63) / 64 {
			clear(block[:])
			for i, s := range sets[from:min(from+64, len(sets))] {
				block[i] = s[w]
			}
			transpose(&block)
			for i, x := range block[:min(64, n-w*64)] {
				out[w*64+i][from/64] = x
			}
		}
	}
	return out
}

// transpose swaps rows and columns of a matrix of bits, by quarters of ever smaller blocks (Warren, Hacker's Delight, 7-3).
func transpose(m *[64]uint64) {
	mask := uint64(1)<<32 - 1
	for half := 32; half > 0; half, mask = half/2, mask^mask<<(half/2) {
		for i := 0; i < 64; i = (i + half + 1) &^ half {
			swap := (m[i]>>half ^ m[i+half]) & mask
			m[i] ^= swap << half
			m[i+half] ^= swap
		}
	}
}
