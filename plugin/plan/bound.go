package plan

import (
	"math"
	"slices"
)

// What proving the lower bound may cost: nodes looked at closely, and steps for each.
const (
	exactLanes = 120
	exactSteps = 4000
)

// bound is a lower bound of what any set of nodes for n units each costs, from the values pi (Farley 1990): if the
// values are scaled down until no node holds more value than it costs, then the value of all units is a bound. What a
// node can hold is taken from a relaxation, and for the nodes that decide from a search that proves it; company rules
// count as the number per node alone. So the bound holds for every pi; good ones make it tight.
func (k *packer) bound(n []int, pi []float64) float64 {
	total := 0.0
	for ui, c := range n {
		total += float64(c) * pi[ui]
	}
	ratio, weight, proven := make([]float64, len(k.lanes)), make([]weights, len(k.lanes)), make([]bool, len(k.lanes))
	for li := range k.lanes {
		var value float64
		value, weight[li] = k.most(li, n, pi, coarse())
		if value > 0 && k.lanes[li].price < 1e-6 {
			return 0
		}
		ratio[li] = perDollar(value, k.lanes[li].price)
	}
	top := 0
	for range exactLanes {
		for li := range ratio {
			if ratio[li] > ratio[top] {
				top = li
			}
		}
		if proven[top] {
			break
		}
		proven[top] = true
		if value, ok := k.exact(top, n, pi, weight[top]); ok {
			ratio[top] = perDollar(value, k.lanes[top].price)
		}
	}
	if most := slices.Max(ratio); most > 0 {
		return total / most
	}
	return 0
}

// most is an upper bound of the value of a node of the lane, and the weights that gave it. The search begins where the
// last one for the lane ended.
func (k *packer) most(li int, n []int, pi []float64, steps []float64) (float64, weights) {
	at := k.by[li]
	best := k.relaxed(li, n, pi, at)
	try := func(w weights) {
		if w.cpu < 0 || w.cpu > 1 || w.pods < 0 || w.pods > 1 {
			return
		}
		if v := k.relaxed(li, n, pi, w); v < best {
			best, at = v, w
		}
	}
	for _, step := range steps {
		from := at
		try(weights{from.cpu - step, from.pods})
		try(weights{from.cpu + step, from.pods})
		from = at
		if from.pods > 0 || k.slotsDecide(li, n) {
			try(weights{from.cpu, from.pods - step})
			try(weights{from.cpu, from.pods + step})
		}
	}
	k.by[li] = at
	return best, at
}

// slotsDecide says that the lane has pod slots for so few pods that they may run out before cpu and memory do.
func (k *packer) slotsDecide(li int, n []int) bool {
	l := &k.lanes[li]
	for _, ui := range l.units {
		if n[ui] == 0 {
			continue
		}
		need := k.p.units[ui].need
		if slots := float64(need[dimPods]) / float64(max(l.free[dimPods], 1)); slots > (weights{cpu: 0.5}).size(need, l.free) {
			return true
		}
	}
	return false
}

// coarse and fine are the steps of the search for weights, from anywhere and from where the last one ended.
func coarse() []float64 { return []float64{0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625} }
func fine() []float64   { return []float64{0.05, 0.015} }

// weights say how the resources are weighed into one: pods for the pod slots, cpu of the rest for cpu, what is left for
// memory.
type weights struct{ cpu, pods float64 }

// size is the weighted share of free that need takes: no node holds more than 1 of it.
func (w weights) size(need, free vec) float64 {
	of := func(d int) float64 { return float64(need[d]) / float64(max(free[d], 1)) }
	return w.pods*of(dimPods) + (1-w.pods)*(w.cpu*of(dimCPU)+(1-w.cpu)*of(dimMemory))
}

// relaxed fills one knapsack, whose size is the weighted one and in which a unit may be cut.
func (k *packer) relaxed(li int, n []int, pi []float64, w weights) float64 {
	list := k.wares(li, n, pi, w)
	k.work += len(list) + 1
	return cut(list, 1)
}

// ware is a unit as the relaxation sees it.
type ware struct {
	unit, most    int
	value, size   float64
	valuePerShare float64
}

// wares lists the units that are wanted, the most value per size first.
func (k *packer) wares(li int, n []int, pi []float64, by weights) []ware {
	k.shelf = k.shelf[:0]
	for _, ui := range k.lanes[li].units {
		if n[ui] == 0 || pi[ui] <= 0 {
			continue
		}
		w := ware{unit: ui, most: k.atMost(li, ui, n), value: pi[ui], size: by.size(k.p.units[ui].need, k.lanes[li].free)}
		w.valuePerShare = math.Inf(1)
		if w.size > 0 {
			w.valuePerShare = w.value / w.size
		}
		if w.most > 0 {
			k.shelf = append(k.shelf, w)
		}
	}
	slices.SortFunc(k.shelf, func(a, b ware) int {
		// Written out: this comparison is a third of all planning. There is no NaN here.
		switch {
		case a.valuePerShare > b.valuePerShare:
			return -1
		case a.valuePerShare < b.valuePerShare:
			return 1
		}
		return a.unit - b.unit
	})
	return k.shelf
}

// cut is the most value of the wares that goes into the size, if the last one may be cut.
func cut(list []ware, left float64) float64 {
	value := 0.0
	for i := range list {
		w := &list[i]
		if whole := float64(w.most) * w.size; whole <= left {
			value += float64(w.most) * w.value
			left -= whole
			continue
		}
		return value + left*w.valuePerShare
	}
	return value
}

// atMost is how many units one node of the lane holds.
func (k *packer) atMost(li, ui int, n []int) int {
	most := min(n[ui], k.lanes[li].free.times(k.p.units[ui].need))
	if len(k.p.capsOf[ui]) > 0 {
		most = min(most, k.p.more(nil, ui, k.lanes[li].pool))
	}
	return most
}

// exact is the most value that a node of the lane holds in whole units, by branch and bound; false if that takes more
// steps than it may.
func (k *packer) exact(li int, n []int, pi []float64, by weights) (float64, bool) {
	b := branch{k: k, list: slices.Clone(k.wares(li, n, pi, by)), free: k.lanes[li].free, sum: make(vec, len(k.sum)), steps: exactSteps}
	b.best = k.best(li, n, pi, 0).value
	b.walk(0, 0, 1)
	k.work += (exactSteps - b.steps) / 4
	return b.best * (1 + 1e-9), b.steps > 0
}

// branch is a search in progress.
type branch struct {
	k     *packer
	list  []ware
	free  vec
	sum   vec
	best  float64
	steps int
}

func (b *branch) walk(at int, value, left float64) {
	b.best = max(b.best, value)
	if at == len(b.list) || b.steps <= 0 || value+cut(b.list[at:], left) <= b.best*(1+1e-9) {
		return
	}
	b.steps--
	w := &b.list[at]
	need := b.k.p.units[w.unit].need
	for n := min(w.most, timesBeside(b.free, b.sum, need)); n >= 0; n-- {
		b.sum.add(need, int64(n))
		b.walk(at+1, value+float64(n)*w.value, left-float64(n)*w.size)
		b.sum.add(need, -int64(n))
	}
}
