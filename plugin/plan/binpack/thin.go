package binpack

import (
	"cmp"
	"math"
	"slices"
)

// What a thin grid may cost, in cells times wares, and how often the prices of what is not on it are set anew.
const (
	thinLimit  = 300_000
	thinRounds = 4
)

// onThinGrid is an upper bound of the value of any content of the lane, from a grid of the dimensions that have the fewest
// steps: those decide where a node holds few pods. For the others the prices are sought at which the bound is least. It
// looks no further once the bound is floor. False means that no dimension has few enough steps.
func (k *packer) onThinGrid(li int, list []ware, floor float64) (float64, bool) {
	most, y := k.useOf(li, list), critical(list)
	list = slices.DeleteFunc(list, func(w ware) bool { return most-(y*w.size-w.value) <= floor })
	if len(list) == 0 {
		return floor, true
	}
	g, size := k.thinGrid(li, list)
	if len(g.axes) == 0 {
		return most, false
	}
	k.gridPrices(li, g, y)
	free, eta := k.lanes[li].free, 1.0
	at, try, used := slices.Clone(k.try), slices.Clone(k.try), make([]float64, len(free))
	for range thinRounds {
		g.most, g.last = k.cells(size)
		upper := k.fillThin(li, g, list, try)
		if upper < most {
			most = upper
			copy(at, try)
		} else {
			eta *= 0.5
		}
		if most <= floor {
			return floor, true
		}
		k.useOfGrid(g, list, used)
		moved := false
		for d, x := range free {
			if slices.ContainsFunc(g.axes, func(a axis) bool { return a.dim == d }) {
				continue
			}
			over := used[d]/float64(max(x, 1)) - 1
			switch {
			case over < 0 && at[d] == 0:
				try[d] = 0
			default:
				try[d] = max(at[d], 0.02*most/float64(max(x, 1))) * math.Exp(eta*min(over, 1))
			}
			moved = moved || try[d] != at[d]
		}
		if !moved {
			break
		}
	}
	return most, true
}

// thinGrid has the dimensions with the fewest steps, as many as the limit permits.
func (k *packer) thinGrid(li int, list []ware) (*grid, int) {
	g, size := &grid{}, 1
	var axes []axis
	for d := range k.lanes[li].free {
		if x := k.axis(li, list, d); x.step > 0 {
			axes = append(axes, x)
		}
	}
	slices.SortStableFunc(axes, func(a, b axis) int { return cmp.Compare(a.cells, b.cells) })
	for _, x := range axes {
		if size*x.cells*len(list) > thinLimit {
			break
		}
		size *= x.cells
		g.axes = append(g.axes, x)
	}
	stride := 1
	for i := range slices.Backward(g.axes) {
		g.axes[i].stride = stride
		stride *= g.axes[i].cells
	}
	return g, size
}

// fillThin fills the grid at the prices, and returns the bound.
func (k *packer) fillThin(li int, g *grid, list []ware, prices []float64) float64 {
	free, rest := k.lanes[li].free, 0.0
	k.work += len(g.most) * len(list) / gridSpeed
	for d, x := range free {
		rest += prices[d] * float64(max(x, 0))
	}
	for i := range list {
		w := &list[i]
		need, value := k.kinds[w.unit].need, w.value
		for d, p := range prices {
			value -= p * float64(need[d])
		}
		switch {
		case value <= 0:
		case g.offset(need) == 0:
			rest += float64(w.most) * value
		default:
			g.add(i, w, need, value, w.most < free.times(need))
		}
	}
	return (g.most[len(g.most)-1] + rest) * (1 + 1e-9)
}

// useOfGrid is what the best content of the grid takes of each dimension.
func (k *packer) useOfGrid(g *grid, list []ware, used []float64) {
	clear(used)
	for at := len(g.most) - 1; g.last[at].n > 0; {
		p := g.last[at]
		need := k.kinds[list[p.ware].unit].need
		for d, x := range need {
			used[d] += float64(p.n) * float64(x)
		}
		at -= int(p.n) * g.offset(need)
	}
}
