package binpack

import (
	"cmp"
	"slices"
)

// What a grid may cost, in cells times wares: while columns are sought, for the bound, and where dimensions are on it
// that may not matter; and how many of those are one step of work.
const (
	smallGrid  = 800_000
	gridLimit  = 3_000_000
	proofLimit = 60_000_000
	extraLimit = 300_000
	gridSpeed  = 24
)

// slack is the share of a dimension that the relaxation uses, below which the dimension hardly decides.
const slack = 0.97

// grid finds the most valuable content of one node by dynamic programming over the dimensions that decide, in steps that
// all needs are multiples of. What does not fit on it is paid for at its price in the relaxation (Lagrange): so the result
// bounds what a node can hold, and is exact where the grid has all that decides. Company is ignored.
type grid struct {
	axes []axis
	// most is the value of the best content of each size, last the piece that came last into it.
	most []float64
	last []piece
}

// axis is one dimension of a grid: so many cells of so much, each so far from the next.
type axis struct {
	dim    int
	step   int64
	cells  int
	stride int
}

// piece is n of a ware.
type piece struct{ ware, n int32 }

// onGrid looks for contents of the lane worth more than floor, hands them to found, and returns an upper bound of the
// value of any. The wares are those listed with the lane's weights. False means that the grid would be more work than the
// limit.
func (k *packer) onGrid(li int, list []ware, floor float64, limit int, found func([]Item)) (float64, bool) {
	most, y := k.useOf(li, list), critical(list)
	// Who takes too much room for the value is in no content worth more than floor.
	list = slices.DeleteFunc(list, func(w ware) bool { return most-(y*w.size-w.value) <= floor })
	if len(list) == 0 {
		return floor, true
	}
	g, ok := k.newGrid(li, list, limit)
	if !ok {
		return most, false
	}
	k.work += len(g.most) * len(list) / gridSpeed
	rest := k.gridPrices(li, g, y)
	for i := range list {
		w := &list[i]
		need, value := k.kinds[w.unit].need, w.value
		for d, p := range k.try {
			value -= p * float64(need[d])
		}
		switch {
		case value <= 0:
		case g.offset(need) == 0:
			rest += float64(w.most) * value
		default:
			g.add(i, w, need, value, w.most < k.lanes[li].free.times(need))
		}
	}
	upper := max((g.most[len(g.most)-1]+rest)*(1+1e-9), floor)
	if upper > floor*(1+1e-9) {
		k.readAll(li, g, list, floor-rest, found)
	}
	return min(upper, most), true
}

// readAll hands over the best content, and, of each ware that is in none so far, the best one with it that is worth more
// than floor.
func (k *packer) readAll(li int, g *grid, list []ware, floor float64, found func([]Item)) {
	covered := newSet(len(k.kinds))
	read := func(first int) {
		items := k.readGrid(li, g, list, first)
		for _, it := range items {
			covered.set(it.Type)
		}
		found(items)
	}
	read(-1)
	for i := range list {
		at := len(g.most) - 1 - g.offset(k.kinds[list[i].unit].need)
		if !covered.has(list[i].unit) && at >= 0 && g.most[at]+list[i].value > floor*(1+1e-6) {
			read(i)
		}
	}
}

// newGrid has the dimensions that matter most in the relaxation, those first of which it takes more than there is: two, and more as
// far as the work allows.
func (k *packer) newGrid(li int, list []ware, limit int) (*grid, bool) {
	order := make([]int, len(k.used))
	for d := range order {
		order[d] = d
	}
	by := k.weights(li)
	matters := func(d int) float64 {
		if k.used[d] > 1 {
			return k.used[d]
		}
		return k.used[d] * by[d]
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(matters(b), matters(a)) })
	g, size := &grid{}, 1
	for _, d := range order {
		x := k.axis(li, list, d)
		if work := size * x.cells * len(list); len(g.axes) >= 2 && work > extraLimit && (work > limit || k.used[d] <= slack) {
			continue
		}
		size *= x.cells
		g.axes = append(g.axes, x)
		if size*len(list) > limit {
			return nil, false
		}
	}
	// The longest one last: it is walked along in one go.
	slices.SortStableFunc(g.axes, func(a, b axis) int { return cmp.Compare(a.cells, b.cells) })
	stride := 1
	for i := range slices.Backward(g.axes) {
		g.axes[i].stride = stride
		stride *= g.axes[i].cells
	}
	g.most, g.last = k.cells(size)
	return g, true
}

func (k *packer) axis(li int, list []ware, d int) axis {
	x := axis{dim: d, cells: 1}
	for i := range list {
		x.step = gcd(x.step, k.kinds[list[i].unit].need[d])
	}
	if x.step > 0 {
		x.cells = int(max(k.lanes[li].free[d], 0)/x.step) + 1
	}
	return x
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// cells is scratch for a grid.
func (k *packer) cells(n int) ([]float64, []piece) {
	if cap(k.gridMost) < n {
		k.gridMost, k.gridLast = make([]float64, n), make([]piece, n)
	}
	most, last := k.gridMost[:n], k.gridLast[:n]
	clear(most)
	clear(last)
	return most, last
}

// of is how many cells the need takes.
func (x *axis) of(need Vec) int {
	if x.step == 0 {
		return 0
	}
	return int(need[x.dim] / x.step)
}

// offset is how far apart two contents are that differ by the need.
func (g *grid) offset(need Vec) int {
	sum := 0
	for i := range g.axes {
		sum += g.axes[i].of(need) * g.axes[i].stride
	}
	return sum
}

// useOf is cut, with the share of each dimension that the wares take in k.used.
func (k *packer) useOf(li int, list []ware) float64 {
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
		for d, need := range k.kinds[w.unit].need {
			k.used[d] += x * float64(need)
		}
		if x < float64(w.most) {
			break
		}
	}
	for d, n := range k.lanes[li].free {
		k.used[d] /= float64(max(n, 1))
	}
	return value
}

// critical is the value per size of the ware at which the size of a node is used up, 0 if it never is.
func critical(list []ware) float64 {
	left := 1.0
	for i := range list {
		if left -= float64(list[i].most) * list[i].size; left < 0 {
			return list[i].valuePerShare
		}
	}
	return 0
}

// gridPrices sets k.try to the price of one of each dimension that is used up and not on the grid, and returns what all
// that the node has of them is worth.
func (k *packer) gridPrices(li int, g *grid, y float64) float64 {
	by, free, rest := k.weights(li), k.lanes[li].free, 0.0
	for d := range free {
		k.try[d] = 0
		if !slices.ContainsFunc(g.axes, func(x axis) bool { return x.dim == d }) {
			k.try[d] = y * by[d] / float64(max(free[d], 1))
			rest += k.try[d] * float64(max(free[d], 0))
		}
	}
	return rest
}

// readGrid is the best content with one of the ware first, -1 for none.
func (k *packer) readGrid(li int, g *grid, list []ware, first int) []Item {
	clear(k.sum)
	k.items = k.items[:0]
	at := len(g.most) - 1
	put := func(w *ware, n int) {
		need := k.kinds[w.unit].need
		at -= n * g.offset(need)
		// What is not on the grid may not fit.
		if n = k.beside(li, w.unit, min(n, w.most-k.taken(w.unit))); n > 0 {
			k.items = addTo(k.items, Item{w.unit, n})
			k.sum.add(need, int64(n))
		}
	}
	if first >= 0 {
		put(&list[first], 1)
	}
	for g.last[at].n > 0 {
		put(&list[g.last[at].ware], int(g.last[at].n))
	}
	k.topUp(li, list)
	return k.items
}

// add allows the ware in any content: any number of it, or no more than there are.
func (g *grid) add(i int, w *ware, need Vec, value float64, few bool) {
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

// runs walks the cells that have room for n times the need along the last axis, upwards, or downwards where n is negative.
func (g *grid) runs(i, base int, need Vec, n int, do func(from, to int)) {
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
