package plan

import (
	"cmp"
	"slices"
)

// bound is a lower bound of what any set of nodes for n units each costs, from the values pi (Farley 1990): if the
// values are scaled down until no node holds more value than it costs, then the value of all units is a bound. What a
// node can hold is taken from the relaxation in which units may be cut and the resources are weighed into one; company
// rules count as the number per node alone. So the bound holds for every pi and every weight; good ones make it tight.
func (k *packer) bound(n []int, pi []float64) float64 {
	total, most := 0.0, 0.0
	for ui, c := range n {
		total += float64(c) * pi[ui]
	}
	for li := range k.lanes {
		value := k.most(li, n, pi)
		if value > 0 && k.lanes[li].price < 1e-6 {
			return 0
		}
		most = max(most, perDollar(value, k.lanes[li].price))
	}
	if most == 0 {
		return 0
	}
	return total / most
}

// most is an upper bound of the value of a node of the lane.
func (k *packer) most(li int, n []int, pi []float64) float64 {
	best, at := k.relaxed(li, n, pi, 0.5), 0.5
	for _, step := range []float64{0.25, 0.125, 0.0625, 0.03125, 0.015625} {
		for _, w := range []float64{at - step, at + step} {
			if v := k.relaxed(li, n, pi, w); v < best {
				best, at = v, w
			}
		}
	}
	for _, w := range []float64{0, 1} {
		best = min(best, k.relaxed(li, n, pi, w))
	}
	return best
}

// relaxed fills one knapsack: its size is weight of the cpu and the rest of the memory, and a unit may be cut.
func (k *packer) relaxed(li int, n []int, pi []float64, weight float64) float64 {
	l := &k.lanes[li]
	k.order = k.order[:0]
	value := 0.0
	for _, ui := range l.units {
		if n[ui] == 0 || pi[ui] <= 0 {
			continue
		}
		s := k.surrogate(li, ui, weight)
		if s <= 0 {
			value += float64(k.atMost(li, ui, n)) * pi[ui]
			continue
		}
		k.order = append(k.order, ui)
		k.density[ui] = pi[ui] / s
	}
	slices.SortFunc(k.order, func(a, b int) int { return cmp.Compare(k.density[b], k.density[a]) })
	left := 1.0
	for _, ui := range k.order {
		s := k.surrogate(li, ui, weight)
		take := min(float64(k.atMost(li, ui, n)), left/s)
		value += take * pi[ui]
		left -= take * s
		if left <= 1e-12 {
			break
		}
	}
	k.work += len(k.order) + 1
	return value
}

// surrogate is the weighted share of cpu and memory that one unit takes: no node holds more than 1 of it.
func (k *packer) surrogate(li, ui int, weight float64) float64 {
	need, free := k.p.units[ui].need, k.lanes[li].free
	return weight*float64(need[dimCPU])/float64(max(free[dimCPU], 1)) + (1-weight)*float64(need[dimMemory])/float64(max(free[dimMemory], 1))
}

// atMost is how many units one node of the lane holds.
func (k *packer) atMost(li, ui int, n []int) int {
	most := min(n[ui], k.lanes[li].free.times(k.p.units[ui].need))
	if len(k.p.capsOf[ui]) > 0 {
		most = min(most, k.p.more(nil, ui, k.lanes[li].pool))
	}
	return most
}
