package binpack

import (
	"cmp"
	"slices"

	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
)

// What a table may cost, in cells times items: at first and at most while columns are sought, for the bound, and where a
// dimension is added that may not matter; and how many of those are one step of work.
const (
	smallTable = 800_000
	tableLimit = 3_000_000
	proofLimit = 60_000_000
	extraLimit = 300_000
	tableSpeed = 24
)

// slack is the share of a dimension that the relaxation uses, below which the dimension hardly decides.
const slack = 0.97

// table is a multi-dimensional knapsack solved by dynamic programming over the dimensions that decide, in steps that all
// needs are multiples of. What a content takes of the other dimensions is charged at their prices in the relaxation
// (Lagrange). So the result bounds what a bin can hold, and is exact where all that decides is in the table. Caps and
// choices are ignored.
type table struct {
	axes []axis
	// most is the value of the best content of each size, last the piece that came last into it.
	most []float64
	last []piece
}

// piece is n of a knapsack item, by its index in the list.
type piece struct{ item, n int32 }

// dpLimits is the value from which on a content counts, and the most work of a table, in cells times items. With round, a table that would be
// more work has larger steps.
type dpLimits struct {
	floor float64
	cells int
	round bool
}

// packer also finds the most valuable content of a single bin by dynamic programming, or bounds it.
type packer struct {
	*filler
	// classes is the eligibility class of each item type; nil until asked for.
	classes []int
	// implied are the dimensions of which the items at hand cannot take more than the bin at hand has, as none of them may be in it more often.
	implied []bool
	// scratch
	tableMost []float64
	tableLast []piece
}

func newPacker(p *problem, work meter) *packer {
	return &packer{filler: &filler{relaxer: newRelaxer(p, work), sum: make(Vec, p.dims)}, implied: make([]bool, p.dims)}
}

// findImplied sets k.implied. A rule by which a bin holds one pod of a Deployment is a dimension to rows: for each a table would be twice as large.
func (k *packer) findImplied(bi int, list []knapItem) {
	for d, free := range k.bins[bi].free {
		most := 0.0
		for i := range list {
			most += float64(list[i].most) * k.needOf(list[i].unit)[d]
		}
		k.implied[d] = most <= float64(free)
	}
}

// byDP hands contents worth more than the floor to found, which is nil where the bound alone counts, and returns an upper bound of the value of any. The list has
// the bin type's weights. It returns false where the table would be more work than the limit, or is rounded.
func (k *packer) byDP(bi int, list []knapItem, l dpLimits, found func([]Item)) (float64, bool) {
	floor := l.floor
	most, y := k.useOf(bi, list), critical(list)
	// An item that takes too much size for its value is in no content worth more than floor.
	list = slices.DeleteFunc(list, func(w knapItem) bool { return most-(y*w.size-w.value) <= floor })
	if len(list) == 0 {
		return floor, true
	}
	k.findImplied(bi, list)
	g, ok := k.newTable(bi, list, l.cells)
	if !ok && l.round {
		g = k.roundedTable(bi, list, l.cells)
	}
	if g == nil {
		return most, false
	}
	k.work.add(len(g.most) * len(list) / tableSpeed)
	rest := k.tablePrices(bi, g, y)
	for i := range list {
		w := &list[i]
		need, value := k.types[w.unit].need, w.value
		for d, p := range k.try {
			value -= p * float64(need[d])
		}
		switch {
		case value <= 0:
		case g.offset(need) == 0:
			rest += float64(w.most) * value
		default:
			g.add(i, w, need, value, w.most < g.times(need))
		}
	}
	upper := max((g.most[len(g.most)-1]+rest)*(1+1e-9), floor)
	if found != nil && upper > floor*(1+1e-9) {
		k.readAll(bi, g, list, floor-rest, found)
	}
	return min(upper, most), ok
}

// readAll hands over the best content, and, for each item that is in none so far, the best one with it that is worth
// more than floor.
func (k *packer) readAll(bi int, g *table, list []knapItem, floor float64, found func([]Item)) {
	covered := bitset.New(len(k.types))
	read := func(first int) {
		items := k.readTable(bi, g, list, first)
		for _, it := range items {
			covered.Add(it.Type)
		}
		found(items)
	}
	read(-1)
	for i := range list {
		at := len(g.most) - 1 - g.offset(k.types[list[i].unit].need)
		if !covered.Has(list[i].unit) && at >= 0 && g.most[at]+list[i].value > floor*(1+1e-6) {
			read(i)
		}
	}
}

// newTable chooses the dimensions that matter most in the relaxation, those first of which it takes more than there is:
// two, and more as far as the work allows.
func (k *packer) newTable(bi int, list []knapItem, limit int) (*table, bool) {
	order := k.byUse(bi)
	g, size := &table{}, 1
	for _, d := range order {
		x := k.axis(bi, list, d)
		if k.implied[d] {
			continue
		}
		if work := size * x.cells * len(list); len(g.axes) >= 2 && work > extraLimit && (work > limit || k.used[d] <= slack) {
			continue
		}
		size *= x.cells
		g.axes = append(g.axes, x)
		if size*len(list) > limit {
			return nil, false
		}
	}
	// The longest one last: it is the inner loop.
	slices.SortStableFunc(g.axes, func(a, b axis) int { return cmp.Compare(a.cells, b.cells) })
	g.setStrides()
	g.most, g.last = k.cells(size)
	return g, true
}

// roundedTable has the dimensions that decide, those with few steps exactly and the others in steps so large that the work is within the limit:
// needs are rounded down to them, so that it bounds what a bin can hold still. It is nil where that leaves next to no steps.
func (k *packer) roundedTable(bi int, list []knapItem, limit int) *table {
	var axes []axis
	for i, d := range k.byUse(bi) {
		if x := k.axis(bi, list, d); x.step > 0 && !k.implied[d] && (i < 2 || k.used[d] > slack) {
			axes = append(axes, x)
		}
	}
	g, size := k.withSteps(bi, axes, limit/len(list))
	if len(g.axes) == 0 {
		return nil
	}
	g.most, g.last = k.cells(size)
	return g
}

// withSteps returns a table of as many of the axes as the limit of cells permits, those with the fewest steps first, the last of them in larger
// ones, and how many cells that is.
func (k *packer) withSteps(bi int, axes []axis, limit int) (*table, int) {
	slices.SortStableFunc(axes, func(a, b axis) int { return cmp.Compare(a.cells, b.cells) })
	g, size := &table{}, 1
	for _, x := range axes {
		if most := limit / size; x.cells > most {
			if most < fewestCells {
				break
			}
			x.coarsen(k.bins[bi].free[x.dim], most)
		}
		size *= x.cells
		g.axes = append(g.axes, x)
	}
	g.setStrides()
	return g, size
}

// byUse orders the dimensions: those first of which the relaxation takes more than there is, then by their part in it.
func (k *packer) byUse(bi int) []int {
	order := make([]int, len(k.used))
	for d := range order {
		order[d] = d
	}
	by := k.weights(bi)
	matters := func(d int) float64 {
		if k.used[d] > 1 {
			return k.used[d]
		}
		return k.used[d] * by[d]
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(matters(b), matters(a)) })
	return order
}

// cells returns the cleared memory of a table.
func (k *packer) cells(n int) ([]float64, []piece) {
	if cap(k.tableMost) < n {
		k.tableMost, k.tableLast = make([]float64, n), make([]piece, n)
	}
	most, last := k.tableMost[:n], k.tableLast[:n]
	clear(most)
	clear(last)
	return most, last
}

// useOf returns the relaxed value of the sorted items, with the share of each dimension that it takes in k.used.
func (k *packer) useOf(bi int, list []knapItem) float64 {
	clear(k.used)
	value, left := 0.0, 1.0
	for i := range list {
		w := &list[i]
		x := float64(w.most)
		if whole := x * w.size; whole > left {
			x = left / w.size
		}
		value += x * w.value
		left -= x * w.size
		for d, need := range k.types[w.unit].need {
			k.used[d] += x * float64(need)
		}
		if x < float64(w.most) {
			break
		}
	}
	for d, n := range k.bins[bi].free {
		k.used[d] /= float64(max(n, 1))
	}
	return value
}

// critical returns the value per size of the item at which the size of a bin is used up, 0 if it never is.
func critical(list []knapItem) float64 {
	left := 1.0
	for i := range list {
		if left -= float64(list[i].most) * list[i].size; left < 0 {
			return list[i].density
		}
	}
	return 0
}

// tablePrices sets k.try to the price of one of each dimension that is not in the table, and returns what all that the
// bin has of them is worth.
func (k *packer) tablePrices(bi int, g *table, y float64) float64 {
	by, free, rest := k.weights(bi), k.bins[bi].free, 0.0
	for d := range free {
		k.try[d] = 0
		if !k.implied[d] && !slices.ContainsFunc(g.axes, func(x axis) bool { return x.dim == d }) {
			k.try[d] = y * by[d] / float64(max(free[d], 1))
			rest += k.try[d] * float64(max(free[d], 0))
		}
	}
	return rest
}

// readTable returns the best content that begins with one of the item, -1 for none.
func (k *packer) readTable(bi int, g *table, list []knapItem, first int) []Item {
	clear(k.sum)
	k.items = k.items[:0]
	at := len(g.most) - 1
	put := func(w *knapItem, n int) {
		need := k.types[w.unit].need
		at -= n * g.offset(need)
		// The dimensions that are not in the table may have no room.
		if n = k.beside(bi, w.unit, min(n, w.most-k.taken(w.unit))); n > 0 {
			k.items = addTo(k.items, Item{w.unit, n})
			k.sum.add(need, int64(n))
		}
	}
	if first >= 0 {
		put(&list[first], 1)
	}
	for g.last[at].n > 0 {
		put(&list[g.last[at].item], int(g.last[at].n))
	}
	k.topUp(bi, list)
	return k.items
}

// add allows the item in any content: any number of it, or no more than there are, in powers of two.
func (g *table) add(i int, w *knapItem, need Vec, value float64, few bool) {
	offset := g.offset(need)
	if !few {
		g.runs(0, 0, need, 1, func(from, to int) {
			most, last, p := g.most[from:to], g.last[from:to], piece{int32(i), 1}
			last = last[:len(most)]
			less := g.most[from-offset : to-offset][:len(most)]
			for at := range most {
				if v := less[at] + value; v > most[at] {
					most[at], last[at] = v, p
				}
			}
		})
		return
	}
	for n, left := 1, w.most; left > 0; n *= 2 {
		n = min(n, left)
		left -= n
		more, back, p := float64(n)*value, n*offset, piece{int32(i), int32(n)}
		g.runs(0, 0, need, -n, func(from, to int) {
			most, last := g.most[from:to], g.last[from:to]
			last = last[:len(most)]
			less := g.most[from-back : to-back][:len(most)]
			for at := len(most) - 1; at >= 0; at-- {
				if v := less[at] + more; v > most[at] {
					most[at], last[at] = v, p
				}
			}
		})
	}
}

// runs visits the cells that have room for n times the need, run by run along the last axis, upwards, or downwards where
// n is negative.
func (g *table) runs(i, base int, need Vec, n int, do func(from, to int)) {
	x := &g.axes[i]
	least := max(n, -n) * x.of(need)
	if i == len(g.axes)-1 {
		if least < x.cells {
			do(base+least, base+x.cells)
		}
		return
	}
	for c := least; c < x.cells; c++ {
		at := c
		if n < 0 {
			at = x.cells - 1 - (c - least)
		}
		g.runs(i+1, base+at*x.stride, need, n, do)
	}
}
