package binpack

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
)

// maxRows is the most item types for which the covering program is solved over patterns: its cost rises with the square.
// Where there are more, resource prices value them, or similar ones count as one of their mean size.
const maxRows = 160

// rows are aggregated item types, as the covering program sees them, and the packer that fills bins with them.
type rows struct {
	*packer
	// of is the row of each item type, members the item types of each row, the largest first: bins of exact rows are filled with them.
	of      []int
	members [][]int
	// exact says that the item types of a row need the same.
	exact bool
	// byResources says that resource prices value the rows: there are too many for a program over patterns.
	byResources bool
	// fine are the rows of equal needs that these aggregate where those are too many for resource prices; nil where they are not.
	fine *rows
}

// newRows aggregates item types of equal needs whatever caps they are in; a tight cap is kept. Where that leaves too
// many for patterns, resource prices value them; where those do not, item types whose needs differ little are aggregated
// as well, by a ratio that grows by more than a half each time, so that some ten tries suffice.
func newRows(k *packer) *rows {
	classes, tight := eligibilityClasses(k), tightCaps(k)
	if r := resourceRows(k, maxRows); r != nil {
		return r
	}
	if of, n := cluster(k, groups{classes, tight, 1}); n > maxAscent {
		if r := coarseRows(k, rowsOf(k, clustering{of, n, tight}, true)); r != nil {
			return r
		}
	}
	for ratio := 1.0; ; ratio = 1.03 + (ratio-1)*1.6 {
		of, n := cluster(k, groups{classes, tight, ratio})
		if n <= maxRows || ratio > 50 {
			return rowsOf(k, clustering{of, n, tight}, ratio == 1)
		}
	}
}

// maxProofRows is the most rows for which the covering program is solved over patterns where a bound alone is sought with more work than a plan has.
const maxProofRows = 400

// patternRows returns rows of equal needs for a program over patterns; nil where there are too many.
func patternRows(k *packer) *rows {
	tight := tightCaps(k)
	of, n := cluster(k, groups{eligibilityClasses(k), tight, 1})
	if n > maxProofRows {
		return nil
	}
	return rowsOf(k, clustering{of, n, tight}, true)
}

// coarseRows aggregates rows of equal needs further, until they are few enough for resource prices, which value each item type by its
// own size still; nil where they are too many whatever counts as similar. The ratio grows by two fifths each time: fourteen
// tries at most.
func coarseRows(k *packer, fine *rows) *rows {
	for ratio := 1.01; ratio < 2; ratio = 1 + (ratio-1)*1.4 {
		of, n := cluster(fine.packer, groups{eligibilityClasses(fine.packer), nil, ratio})
		if n > manyRows {
			continue
		}
		r := rowsOf(fine.packer, clustering{of, n, nil}, false)
		r.byResources, r.fine = true, fine
		r.of = make([]int, len(k.types))
		for _, ti := range k.bySize {
			r.of[ti] = of[fine.of[ti]]
		}
		return r
	}
	return nil
}

// resourceRows returns rows that resource prices can value, nil where there are no more than few or too many. A tight
// cap is one more resource of a bin, and priced like one.
func resourceRows(k *packer, few int) *rows {
	tight := tightCaps(k)
	of, n := cluster(k, groups{eligibilityClasses(k), tight, 1})
	if n <= few || n > maxAscent {
		return nil
	}
	r := rowsOf(k, clustering{of, n, tight}, true)
	r.byResources = true
	return r
}

// eligibilityClasses divides item types by the bin types that are open to them if size does not count.
func eligibilityClasses(k *packer) []int {
	if k.classes == nil {
		k.classes = findClasses(k.relaxer)
	}
	return k.classes
}

// maxClasses is how many eligibility classes each item type is compared with. Beyond that those that the same bin types take are one.
const maxClasses = 512

func findClasses(k *relaxer) []int {
	out := make([]int, len(k.types))
	var open []bitset.Set
	fits, later := bitset.New(len(k.bins)), map[*uint64]int{}
	for _, ti := range slices.Backward(k.bySize) { // the smallest first: most bins hold them
		clear(fits)
		for bi := range k.bins {
			if k.bins[bi].free.times(k.types[ti].need) > 0 {
				fits.Add(bi)
			}
		}
		takes := k.types[ti].takes
		same := func(o bitset.Set) bool {
			for w, x := range takes {
				if x != o[w]&fits[w] {
					return false
				}
			}
			return true
		}
		at := slices.IndexFunc(open[:min(len(open), maxClasses)], same)
		if i, known := later[&takes[0]]; at < 0 && known {
			at = i
		}
		if at < 0 {
			at = len(open)
			open = append(open, takes)
			if at >= maxClasses {
				later[&takes[0]] = at
			}
		}
		out[ti] = at
	}
	return out
}

// maxTight is how many caps are a resource to rows at most: valuing resources takes time in proportion to the square of their number.
const maxTight = 32

// tightCaps returns the caps that ask for the most bins: those that limit an item type itself, at least a quarter as
// hard as the one that does it most. The others are kept to where the rows' patterns are filled with item types.
func tightCaps(k *packer) []bool {
	nodes, most := make([]float64, len(k.p.caps)), 0.0
	for _, ti := range k.all {
		for _, ci := range k.types[ti].caps {
			if c := &k.p.caps[ci]; c.subject[ti] && c.weight[ti] > 0 {
				nodes[ci] += float64(k.types[ti].count*c.weight[ti]) / float64(max(c.limit, 1))
				most = max(most, nodes[ci])
			}
		}
	}
	var tight []int
	for ci, n := range nodes {
		if n > 1 && n >= most/4 { // One bin is enough for what asks for no more.
			tight = append(tight, ci)
		}
	}
	slices.SortStableFunc(tight, func(a, b int) int { return cmp.Compare(nodes[b], nodes[a]) })
	out := make([]bool, len(nodes))
	for _, ci := range tight[:min(len(tight), maxTight)] {
		out[ci] = true
	}
	return out
}

// groups says which item types count as alike: those of one eligibility class whose tight caps are the same and whose needs differ by
// less than the ratio.
type groups struct {
	classes []int
	tight   []bool
	ratio   float64
}

// clustering is the row of each item type, how many rows there are, and the caps that are a resource to them.
type clustering struct {
	of    []int
	n     int
	tight []bool
}

// cluster numbers the rows of the item types.
func cluster(k *packer, g groups) ([]int, int) {
	of, index := make([]int, len(k.types)), map[string]int{}
	var key []byte
	for _, ti := range k.all {
		t := &k.types[ti]
		key = binary.AppendUvarint(key[:0], uint64(g.classes[ti]))
		for _, x := range t.need {
			if g.ratio > 1 && x > 0 {
				x = 1 + int64(math.Log(float64(x))/math.Log(g.ratio))
			}
			key = binary.AppendVarint(key, x)
		}
		for _, ci := range t.caps {
			if c := &k.p.caps[ci]; g.tight[ci] && c.subject[ti] && c.weight[ti] > 0 {
				key = binary.AppendUvarint(binary.AppendUvarint(key, uint64(ci)), uint64(c.weight[ti]))
			}
		}
		r, ok := index[string(key)]
		if !ok {
			r = len(index)
			index[string(key)] = r
		}
		of[ti] = r
	}
	return of, len(index)
}

// rowsOf makes the packer of the rows. To rows a tight cap is one more dimension, of which a bin has as much as the
// limit says.
func rowsOf(k *packer, c clustering, exact bool) *rows {
	of, n, tight := c.of, c.n, c.tight
	p := *k.p
	p.types, p.caps = make([]itemType, n), nil
	p.bins = slices.Clone(k.bins)
	dim := make([]int, len(tight))
	for ci, on := range tight {
		if !on {
			continue
		}
		dim[ci] = p.dims
		p.dims++
		for bi := range p.bins {
			p.bins[bi].free = append(slices.Clip(p.bins[bi].free), int64(k.p.caps[ci].limit))
		}
	}
	members, sums := make([][]int, n), make([][]float64, n)
	for _, ti := range k.bySize {
		r, t := of[ti], &k.types[ti]
		row := &p.types[r]
		if members[r] == nil {
			row.need, row.takes, sums[r] = make(Vec, p.dims), bitset.New(len(k.bins)), make([]float64, len(t.need))
			for _, ci := range t.caps {
				if c := &k.p.caps[ci]; tight[ci] && c.subject[ti] {
					row.need[dim[ci]] = int64(c.weight[ti])
				}
			}
		}
		members[r] = append(members[r], ti)
		row.count += t.count
		row.takes.Union(t.takes)
		for d, x := range t.need {
			sums[r][d] += float64(x) * float64(t.count)
		}
	}
	for d := range k.p.dims {
		// In steps of which all needs are multiples.
		step := int64(0)
		for _, ti := range k.all {
			step = gcd(step, k.types[ti].need[d])
		}
		step = max(step, 1)
		for r := range p.types {
			p.types[r].need[d] = step * int64(math.Round(sums[r][d]/float64(p.types[r].count)/float64(step)))
		}
	}
	return &rows{packer: newPacker(&p, meter{budget: k.work.budget}), of: of, members: members, exact: exact}
}

// start returns the rows' values where those of the item types are known; nil where they are not.
func (r *rows) start(k *packer, values []float64) []float64 {
	if values == nil {
		return nil
	}
	out := make([]float64, len(r.types))
	for _, ti := range k.all {
		out[r.of[ti]] += values[ti] * float64(k.types[ti].count) / float64(r.types[r.of[ti]].count)
	}
	return out
}

// boundShare is how much more work a bound takes than one look at each item type and bin type: where that is more than all work of the
// program, a packing does without a bound.
const boundShare = 15

// solve solves the covering program of the rows with so much work.
func (r *rows) solve(g goal, work int) coverSolution {
	if !r.byResources {
		return solveProgram(r.packer, g, work)
	}
	prices := resourcePrices(r.packer, g, work)
	out := coverSolution{values: prices.pi}
	bounded, values := r, prices.pi
	if r.fine != nil {
		bounded, values = r.fine, r.fine.priced(prices)
		out.fine = values
	}
	if g.proof || len(bounded.all)*len(bounded.bins) < work/boundShare {
		out.bound = boundOf(bounded.packer, values)
	}
	return out
}

// priced returns the values of the rows at resource prices of a coarser aggregate: what each costs where it costs least.
func (r *rows) priced(s *dualAscent) []float64 {
	out := make([]float64, len(r.types))
	for _, ti := range r.all {
		t, least := &r.types[ti], math.Inf(1)
		for bi := range r.bins {
			if t.takes.Has(bi) {
				least = min(least, s.cost(bi, t.need))
			}
		}
		if !math.IsInf(least, 1) {
			out[ti] = least
		}
	}
	r.work.add(len(r.all) * len(r.bins) / ascentSpeed)
	return out
}

// spread gives the item types the values of their rows, in proportion to their size.
func (r *rows) spread(k *packer, counts []int, pi []float64) []float64 {
	r.weigh(counts, pi)
	size := func(need Vec) float64 {
		s := 0.0
		for d := range k.scale {
			s += r.scale[d] * float64(need[d])
		}
		return s
	}
	out := make([]float64, len(k.types))
	for _, ti := range k.all {
		row := r.of[ti]
		out[ti] = pi[row]
		if mean := size(r.types[row].need); mean > 0 && !r.exact {
			out[ti] *= size(k.types[ti].need) / mean
		}
	}
	return out
}

// realize fills n bins of the pattern of rows with item types that are left, as far as caps and choices allow.
func (r *rows) realize(k *packer, pat pattern, n int, left []int) []box {
	var out []box
	for range n {
		clear(k.sum)
		k.items = k.items[:0]
		for _, it := range pat.items {
			want := it.N
			for i := 0; i < len(r.members[it.Type]) && want > 0; i++ {
				ti := r.members[it.Type][i]
				if left[ti] == 0 || !k.types[ti].takes.Has(pat.bin) {
					continue
				}
				if c := k.beside(pat.bin, ti, min(want, left[ti])); c > 0 {
					k.items = addTo(k.items, Item{ti, c})
					k.sum.add(k.types[ti].need, int64(c))
					left[ti] -= c
					want -= c
				}
			}
			k.work.add(len(r.members[it.Type]))
			// Used up: the largest first, so that those left at the head are none.
			r.drop(it.Type, left)
		}
		if len(k.items) == 0 {
			break
		}
		out = append(out, box{bin: pat.bin, items: slices.Clone(k.items), sum: k.sum.clone()})
	}
	return out
}

// drop takes the members off the front of the row's list of which none are left.
func (r *rows) drop(row int, left []int) {
	for len(r.members[row]) > 0 && left[r.members[row][0]] == 0 {
		r.members[row] = r.members[row][1:]
	}
}
