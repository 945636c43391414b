package binpack

import (
	"math"
	"slices"
)

// What a coarse table may cost, in cells times items, how often the prices of what is not in it are set again, and how few cells of a
// dimension are worth it.
const (
	coarseLimit  = 300_000
	refineLimit  = 3_000_000
	coarseRounds = 4
	fewestCells  = 12
)

// boundByDP returns an upper bound of the value of any content, from a table of the dimensions that have the fewest
// steps: those decide where a bin holds few items. Dimensions with too many steps for the limit are in larger ones, to which needs
// are rounded down. For those and for the others it looks for the prices at which the bound is least, by subgradient steps. It looks no
// further once the bound is floor. It returns false where no dimension has few enough steps.
func (k *packer) boundByDP(bi int, list []knapItem, floor float64, limit int) (float64, bool) {
	most, y := k.useOf(bi, list), critical(list)
	list = slices.DeleteFunc(list, func(w knapItem) bool { return most-(y*w.size-w.value) <= floor })
	if len(list) == 0 {
		return floor, true
	}
	k.findImplied(bi, list)
	g, size := k.coarseTable(bi, list, limit)
	if len(g.axes) == 0 {
		return most, false
	}
	k.tablePrices(bi, g, y)
	free, eta := k.bins[bi].free, 1.0
	at, try, used := slices.Clone(k.try), slices.Clone(k.try), make([]float64, len(free))
	for range coarseRounds {
		g.most, g.last = k.cells(size)
		upper := k.fillTable(bi, g, list, try)
		if upper < most {
			most = upper
			copy(at, try)
		} else {
			eta *= 0.5
		}
		if most <= floor {
			return floor, true
		}
		k.useOfTable(g, list, used)
		moved := false
		for d, x := range free {
			if k.implied[d] || slices.ContainsFunc(g.axes, func(a axis) bool { return a.dim == d && !a.rounded }) {
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

// coarseTable chooses the dimensions with the fewest steps, as many as the limit permits, the last of them in larger steps.
func (k *packer) coarseTable(bi int, list []knapItem, limit int) (*table, int) {
	var axes []axis
	for d := range k.bins[bi].free {
		if x := k.axis(bi, list, d); x.step > 0 && !k.implied[d] {
			axes = append(axes, x)
		}
	}
	return k.withSteps(bi, axes, limit/len(list))
}

// fillTable fills the table at the prices, and returns the bound.
func (k *packer) fillTable(bi int, g *table, list []knapItem, prices []float64) float64 {
	free, rest := k.bins[bi].free, 0.0
	k.work.add(len(g.most) * len(list) / tableSpeed)
	for d, x := range free {
		rest += prices[d] * float64(max(x, 0))
	}
	for i := range list {
		w := &list[i]
		need, value := k.types[w.unit].need, w.value
		for d, p := range prices {
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
	return (g.most[len(g.most)-1] + rest) * (1 + 1e-9)
}

// useOfTable sums what the best content of the table takes of each dimension.
func (k *packer) useOfTable(g *table, list []knapItem, used []float64) {
	clear(used)
	for at := len(g.most) - 1; g.last[at].n > 0; {
		p := g.last[at]
		need := k.types[list[p.item].unit].need
		for d, x := range need {
			used[d] += float64(p.n) * float64(x)
		}
		at -= int(p.n) * g.offset(need)
	}
}
