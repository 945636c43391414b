package plan

import (
	"cmp"
	"slices"
)

// packer fills single nodes for as much value as it finds. It owns the scratch memory and counts the work done, which is
// what budgets are given in: the same input does the same work.
type packer struct {
	p     *problem
	lanes []lane
	work  int
	// scratch of fill
	sum     vec
	order   []int
	density []float64
	items   []item
	steps   int
	// bySize is the units, the largest first.
	bySize []int
}

// pattern is what one node of a lane holds, and its value.
type pattern struct {
	lane  int
	items []item
	value float64
}

func newPacker(p *problem) *packer {
	return &packer{
		p: p, lanes: p.lanes(), sum: make(vec, len(p.m.dims)),
		density: make([]float64, len(p.units)), bySize: p.bySize(),
	}
}

// dfsSteps bounds the search that follows the greedy fills of one node.
const dfsSteps = 120

// best looks for the most valuable content of a node of the lane, of at most counts units each with the values of pi. It
// fills greedily by value per size, where size weighs cpu against memory, and moves the weight towards the resource that
// ran out; then it searches around the best of these.
func (k *packer) best(li int, counts []int, pi []float64) pattern {
	out := pattern{lane: li}
	low, high := 0.0, 1.0
	bestWeight := 0.5
	for step := range 5 {
		weight := (low + high) / 2
		value := k.fill(li, counts, pi, weight)
		if value > out.value {
			out.value, bestWeight = value, weight
			out.items = append(out.items[:0], k.items...)
		}
		free := k.lanes[li].free
		cpuLeft := float64(free[dimCPU]-k.sum[dimCPU]) / float64(max(free[dimCPU], 1))
		memLeft := float64(free[dimMemory]-k.sum[dimMemory]) / float64(max(free[dimMemory], 1))
		if len(k.items) < 2 && step == 0 && len(k.lanes[li].units) < 2 {
			return out
		}
		if cpuLeft < memLeft {
			low = weight
		} else {
			high = weight
		}
	}
	k.search(li, counts, pi, bestWeight, &out)
	return out
}

// fill is one greedy fill; what it took is in k.items and k.sum.
func (k *packer) fill(li int, counts []int, pi []float64, weight float64) float64 {
	k.sort(li, counts, pi, weight)
	clear(k.sum)
	k.items = k.items[:0]
	value := 0.0
	for _, ui := range k.order {
		if n := k.fits(li, ui, counts[ui]); n > 0 {
			k.items = append(k.items, item{ui, n})
			k.sum.add(k.p.units[ui].need, int64(n))
			value += float64(n) * pi[ui]
		}
	}
	k.work += len(k.order) + 1
	return value
}

// sort orders the units of the lane that are wanted by value per size.
func (k *packer) sort(li int, counts []int, pi []float64, weight float64) {
	l := &k.lanes[li]
	k.order = k.order[:0]
	for _, ui := range l.units {
		if counts[ui] > 0 && pi[ui] > 0 {
			k.order = append(k.order, ui)
			k.density[ui] = pi[ui] / (size(k.p.units[ui].need, l.free, weight) + 1e-12)
		}
	}
	slices.SortFunc(k.order, func(a, b int) int {
		return cmp.Or(cmp.Compare(k.density[b], k.density[a]), cmp.Compare(a, b))
	})
}

// size is the weighted share that need takes of free: weight for cpu, the rest for memory; what else is scarce counts a
// little, so that it decides between equals.
func size(need, free vec, weight float64) float64 {
	s := 0.0
	for d, n := range need {
		if n == 0 {
			continue
		}
		x := float64(n) / float64(max(free[d], 1))
		switch d {
		case dimCPU:
			s += weight * x
		case dimMemory:
			s += (1 - weight) * x
		default:
			s += 0.1 * x
		}
	}
	return s
}

// fits is how many units, up to want, go beside k.items.
func (k *packer) fits(li, ui, want int) int {
	l := &k.lanes[li]
	n := min(want, timesBeside(l.free, k.sum, k.p.units[ui].need))
	if n > 0 && (len(k.p.capsOf[ui]) > 0 || len(k.p.units[ui].demands[l.pool]) > 0) {
		n = min(n, k.p.more(k.items, ui, l.pool))
	}
	return n
}

// search goes depth first through contents that take fewer of a unit than would fit, to leave room for what comes after.
func (k *packer) search(li int, counts []int, pi []float64, weight float64, out *pattern) {
	k.sort(li, counts, pi, weight)
	clear(k.sum)
	k.items = k.items[:0]
	k.steps = dfsSteps
	k.walk(walk{li: li, counts: counts, pi: pi, weight: weight, out: out}, 0, 0)
	k.work += (dfsSteps - k.steps) / 2
}

// walk is what stays the same during a search.
type walk struct {
	li     int
	counts []int
	pi     []float64
	weight float64
	out    *pattern
}

func (k *packer) walk(w walk, at int, value float64) {
	if value > w.out.value*(1+1e-9) {
		w.out.value = value
		w.out.items = append(w.out.items[:0], k.items...)
	}
	if at == len(k.order) || k.steps <= 0 || value+k.density[k.order[at]]*k.left(w) <= w.out.value {
		return
	}
	k.steps--
	ui := k.order[at]
	most := k.fits(w.li, ui, w.counts[ui])
	for n := most; n >= max(most-3, 0); n-- {
		if n > 0 {
			k.items = append(k.items, item{ui, n})
			k.sum.add(k.p.units[ui].need, int64(n))
		}
		k.walk(w, at+1, value+float64(n)*w.pi[ui])
		if n > 0 {
			k.items = k.items[:len(k.items)-1]
			k.sum.add(k.p.units[ui].need, -int64(n))
		}
	}
}

// left is the size that is still free, for the bound of the search.
func (k *packer) left(w walk) float64 {
	free := k.lanes[w.li].free
	s := 0.0
	for d, n := range k.sum {
		x := float64(free[d]-n) / float64(max(free[d], 1))
		switch d {
		case dimCPU:
			s += w.weight * x
		case dimMemory:
			s += (1 - w.weight) * x
		default:
			s += 0.1 * max(x, 0)
		}
	}
	return s
}
