package binpack

import "slices"

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

// Set is a set of small integers.
type Set []uint64

func newSet(n int) Set       { return make(Set, (n+63)/64) }
func (b Set) has(i int) bool { return b[i>>6]&(1<<(i&63)) != 0 }
func (b Set) set(i int)      { b[i>>6] |= 1 << (i & 63) }
func (b Set) clone() Set     { return slices.Clone(b) }

func (b Set) empty() bool {
	return !slices.ContainsFunc(b, func(w uint64) bool { return w != 0 })
}

// or adds what is in o.
func (b Set) or(o Set) {
	for i := range b {
		b[i] |= o[i]
	}
}
