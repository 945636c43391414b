package binpack

import (
	"math"
	"slices"
)

// packer fills single nodes for as much value as it finds. It owns the scratch memory and counts the work done, which is
// what budgets are given in: the same input does the same work.
type packer struct {
	p     *problem
	kinds []kind
	lanes []lane
	work  int
	// all is every kind with a count.
	all []int
	// holds is how many of each kind an empty node of a lane holds, computed when a lane is first looked at.
	holds [][]int32
	// scale is the value of one of each dimension, roughly; by is the weights that fitted each lane last.
	scale []float64
	by    [][]float64
	// bySize is the kinds, the largest first.
	bySize []int
	// scratch
	sum         Vec
	items       []Item
	shelf       []ware
	blending    []ware
	blendNeeds  []float64
	weight, try []float64
	used, spare []float64
	steps       int
	gridMost    []float64
	gridLast    []piece
	// moves is how often most may move the weights of a lane; who calls it says.
	moves int
	// found are the values of the kinds that a covering program ended with; hint those that a search starts from, nil for none.
	found, hint []float64
	// hasty says that any content worth more than the floor will do.
	hasty bool
	// light says that contents are looked for with less effort.
	light bool
	// wantsBound says that values are to prove a bound.
	wantsBound bool
	// proof says that it is the bound that counts, and not the plan.
	proof bool
	// forRent says that rents price the kinds, no covering program does.
	forRent bool
}

// pattern is what one node of a lane holds, and its value.
type pattern struct {
	lane  int
	items []Item
	value float64
}

// box is a node with its kinds.
type box struct {
	lane  int
	items []Item
	sum   Vec
}

func newPacker(p *problem) *packer {
	d := p.dims
	k := &packer{
		p: p, kinds: p.kinds, lanes: p.lanes, holds: make([][]int32, len(p.lanes)), by: make([][]float64, len(p.lanes)),
		scale: make([]float64, d), sum: make(Vec, d), weight: make([]float64, d), try: make([]float64, d),
		used: make([]float64, d), spare: make([]float64, d),
	}
	for ki := range p.kinds {
		if p.kinds[ki].count > 0 {
			k.all = append(k.all, ki)
		}
	}
	k.sortBySize()
	return k
}

// sortBySize puts those kinds first that take the largest share of the largest lane.
func (k *packer) sortBySize() {
	largest := make(Vec, k.p.dims)
	for li := range k.lanes {
		for d, n := range k.lanes[li].free {
			largest[d] = max(largest[d], n)
		}
	}
	size := make([]float64, len(k.kinds))
	for ki := range k.kinds {
		size[ki] = share(k.kinds[ki].need, largest)
	}
	k.bySize = slices.Clone(k.all)
	slices.SortStableFunc(k.bySize, func(a, b int) int {
		switch {
		case size[a] > size[b]:
			return -1
		case size[a] < size[b]:
			return 1
		}
		return 0
	})
}

// held is how many of each kind one node of the lane holds when there is nothing else on it.
func (k *packer) held(li int) []int32 {
	if k.holds[li] != nil {
		return k.holds[li]
	}
	out := make([]int32, len(k.kinds))
	l := &k.lanes[li]
	for ki := range k.kinds {
		kd := &k.kinds[ki]
		if !kd.takes.has(li) {
			continue
		}
		n := l.free.times(kd.need)
		if len(kd.caps) > 0 {
			n = min(n, k.p.more(nil, ki, l.pool))
		}
		out[ki] = int32(min(n, math.MaxInt32))
	}
	k.work += len(k.kinds)
	k.holds[li] = out
	return out
}

// weigh finds what one of each dimension is worth, so that the sizes of the kinds explain their values: least squares,
// none negative, by coordinate descent. Lanes take their first weights from that.
func (k *packer) weigh(counts []int, pi []float64) {
	d := len(k.scale)
	gram, right := make([]float64, d*d), make([]float64, d)
	for _, ki := range k.all {
		if pi[ki] <= 0 || counts[ki] == 0 {
			continue
		}
		// Errors count relative to the value.
		w := float64(counts[ki]) / pi[ki]
		for i, x := range k.kinds[ki].need {
			right[i] += w * float64(x) * pi[ki]
			for j, y := range k.kinds[ki].need {
				gram[i*d+j] += w * float64(x) * float64(y)
			}
		}
	}
	for range 60 {
		for i := range d {
			r := right[i]
			for j := range d {
				if j != i {
					r -= gram[i*d+j] * k.scale[j]
				}
			}
			k.scale[i] = 0
			if gram[i*d+i] > 0 {
				k.scale[i] = max(r/gram[i*d+i], 0)
			}
		}
	}
}

// weights are the lane's share of each dimension in a node's size, 1 together.
func (k *packer) weights(li int) []float64 {
	if k.by[li] != nil {
		return k.by[li]
	}
	l, out, sum := &k.lanes[li], make([]float64, len(k.scale)), 0.0
	for d, n := range l.free {
		out[d] = k.scale[d] * float64(max(n, 0))
		sum += out[d]
	}
	for d := range out {
		if sum > 0 {
			out[d] /= sum
		} else {
			out[d] = 1 / float64(len(out))
		}
	}
	k.by[li] = out
	return out
}

// ware is a kind as a lane sees it.
type ware struct {
	unit, most    int
	value, size   float64
	valuePerShare float64
}

// wares lists those of the kinds that are wanted, the most value per size first.
func (k *packer) wares(li int, want, n []int, pi []float64, by []float64) []ware {
	list := k.gather(li, want, n, pi, by)
	slices.SortFunc(list, func(a, b ware) int {
		// Written out: there is no NaN here.
		switch {
		case a.valuePerShare > b.valuePerShare:
			return -1
		case a.valuePerShare < b.valuePerShare:
			return 1
		}
		return a.unit - b.unit
	})
	return list
}

// gather is wares in any order.
func (k *packer) gather(li int, want, n []int, pi []float64, by []float64) []ware {
	k.shelf = k.shelf[:0]
	l, held := &k.lanes[li], k.held(li)
	per := k.weight
	for d := range per {
		per[d] = by[d] / float64(max(l.free[d], 1))
	}
	for _, ki := range want {
		most := min(n[ki], int(held[ki]))
		if most == 0 || pi[ki] <= 0 {
			continue
		}
		size := 0.0
		for d, x := range k.kinds[ki].need {
			size += per[d] * float64(x)
		}
		w := ware{unit: ki, most: most, value: pi[ki], size: size, valuePerShare: math.Inf(1)}
		if size > 0 {
			w.valuePerShare = w.value / size
		}
		k.shelf = append(k.shelf, w)
	}
	k.work += len(want) + 1
	return k.shelf
}

// before says that a is worth more per size than b.
func (a *ware) before(b *ware) bool {
	return a.valuePerShare > b.valuePerShare || a.valuePerShare == b.valuePerShare && a.unit < b.unit
}

// pile makes a heap of the wares: most of them are never looked at, which a sort would take in account.
func pile(list []ware) {
	for i := len(list)/2 - 1; i >= 0; i-- {
		sink(list, i)
	}
}

// sink moves the ware down to its place in the heap.
func sink(list []ware, i int) {
	for {
		c := 2*i + 1
		if c >= len(list) {
			return
		}
		if c+1 < len(list) && list[c+1].before(&list[c]) {
			c++
		}
		if !list[c].before(&list[i]) {
			return
		}
		list[i], list[c] = list[c], list[i]
		i = c
	}
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
		if w.size > 0 {
			value += left / w.size * w.value
		}
		break
	}
	return value
}

// relaxed fills one knapsack, whose size is the weighted one and in which a unit may be cut: no node of the lane holds
// more value, whatever the weights.
func (k *packer) relaxed(li int, want, n []int, pi []float64, by []float64) float64 {
	list, value, left := k.gather(li, want, n, pi, by), 0.0, 1.0
	for pile(list); len(list) > 0 && left > 0; list = next(list) {
		w := &list[0]
		x := min(float64(w.most), left/w.size)
		value += x * w.value
		left -= x * w.size
	}
	return value
}

// next takes the first ware off the heap.
func next(list []ware) []ware {
	last := len(list) - 1
	list[0] = list[last]
	sink(list[:last], 0)
	return list[:last]
}

// most is an upper bound of the value of a node of the lane: of the relaxation with the weights where it is least, or of
// any it comes by on the way that is no more than floor. The weights of the dimensions that the relaxed fill overdraws
// are raised until none is, or for so many moves.
func (k *packer) most(li int, want, n []int, pi []float64, floor float64) float64 {
	at := k.weights(li)
	best, over := k.fillRelaxed(li, want, n, pi, at)
	eta := 0.7
	for range k.moves {
		if best <= floor || over <= 1e-4 {
			return best
		}
		sum := 0.0
		for d := range at {
			k.try[d] = max(at[d], 1e-4) * math.Exp(eta*(k.used[d]-1))
			sum += k.try[d]
		}
		for d := range at {
			k.try[d] /= sum
		}
		was := k.used
		k.used, k.spare = k.spare, was
		v, o := k.fillRelaxed(li, want, n, pi, k.try)
		if v < best {
			best, over = v, o
			copy(at, k.try)
			continue
		}
		k.used, k.spare = k.spare, k.used
		eta *= 0.4
	}
	return best
}

// fillRelaxed is relaxed; the share of each dimension that the fill takes is in k.used, and the most by which one is
// overdrawn is returned.
func (k *packer) fillRelaxed(li int, want, n []int, pi []float64, by []float64) (float64, float64) {
	list, value, left := k.gather(li, want, n, pi, by), 0.0, 1.0
	clear(k.used)
	for pile(list); len(list) > 0 && left > 0; list = next(list) {
		w := &list[0]
		x := min(float64(w.most), left/w.size)
		value += x * w.value
		left -= x * w.size
		for d, need := range k.kinds[w.unit].need {
			k.used[d] += x * float64(need)
		}
	}
	over := 0.0
	for d, free := range k.lanes[li].free {
		k.used[d] /= float64(max(free, 1))
		over = max(over, k.used[d]-1)
	}
	return value, over
}
