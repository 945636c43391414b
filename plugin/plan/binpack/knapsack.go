package binpack

import (
	"math"
	"slices"
)

// stock is what may go into a bin: the item types wanted, how many of each there are and what one is worth, both by item
// type.
type stock struct {
	types, counts []int
	values        []float64
}

// relaxer bounds what a single bin can hold: a knapsack with several dimensions, relaxed to one whose size is a weighted
// sum of them and in which an item may be cut (surrogate relaxation). It owns the scratch memory and counts the work.
type relaxer struct {
	p     *problem
	types []itemType
	bins  []binType
	work  meter
	// all are the item types with a count, bySize the same, the largest first.
	all, bySize []int
	// needs is what one item of each type takes of each dimension, type after type: they are read far more often than anything else.
	needs []float64
	// holds is how many of each item type an empty bin holds, computed when a bin type is first looked at.
	holds [][]int32
	// scale is the value of one of each dimension, roughly; by is the weights at which each bin type's relaxation was least.
	scale []float64
	by    [][]float64
	// scratch
	list                     []knapItem
	weight, try, used, spare []float64
}

func newRelaxer(p *problem, work meter) *relaxer {
	d := p.dims
	k := &relaxer{
		p: p, types: p.types, bins: p.bins, work: work, holds: make([][]int32, len(p.bins)), by: make([][]float64, len(p.bins)),
		scale: make([]float64, d), weight: make([]float64, d), try: make([]float64, d), used: make([]float64, d), spare: make([]float64, d),
	}
	for ti := range p.types {
		for _, n := range p.types[ti].need {
			k.needs = append(k.needs, float64(n))
		}
		if p.types[ti].count > 0 {
			k.all = append(k.all, ti)
		}
	}
	k.orderBySize()
	return k
}

// orderBySize puts those item types first that take the largest share of the largest bin.
func (k *relaxer) orderBySize() {
	largest := make(Vec, k.p.dims)
	for bi := range k.bins {
		for d, n := range k.bins[bi].free {
			largest[d] = max(largest[d], n)
		}
	}
	size := make([]float64, len(k.types))
	for ti := range k.types {
		size[ti] = share(k.types[ti].need, largest)
	}
	k.bySize = slices.Clone(k.all)
	slices.SortStableFunc(k.bySize, func(a, b int) int { return descending(size[a], size[b]) })
}

// descending compares for an order from the largest to the smallest. It is written out since there is no NaN here.
func descending(a, b float64) int {
	switch {
	case a > b:
		return -1
	case a < b:
		return 1
	}
	return 0
}

// held returns how many of each item type one bin holds when there is nothing else in it.
func (k *relaxer) held(bi int) []int32 {
	if k.holds[bi] != nil {
		return k.holds[bi]
	}
	out := make([]int32, len(k.types))
	b := &k.bins[bi]
	for ti := range k.types {
		t := &k.types[ti]
		if !t.takes.Has(bi) {
			continue
		}
		n := b.free.times(t.need)
		if len(t.caps) > 0 {
			n = min(n, k.p.more(nil, ti, b.pool))
		}
		out[ti] = int32(min(n, math.MaxInt32))
	}
	k.work.add(len(k.types))
	k.holds[bi] = out
	return out
}

// weigh finds the value of one of each dimension with which the sizes of the item types explain their values best: least
// squares without negative values, by coordinate descent. Bin types take their first weights from that.
func (k *relaxer) weigh(counts []int, values []float64) {
	d := len(k.scale)
	gram, right := make([]float64, d*d), make([]float64, d)
	for _, ti := range k.all {
		if values[ti] <= 0 || counts[ti] == 0 {
			continue
		}
		// Errors count relative to the value.
		w := float64(counts[ti]) / values[ti]
		for i, x := range k.types[ti].need {
			right[i] += w * float64(x) * values[ti]
			for j, y := range k.types[ti].need {
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

// weights returns the share of each dimension in a bin's size, 1 together.
func (k *relaxer) weights(bi int) []float64 {
	if k.by[bi] != nil {
		return k.by[bi]
	}
	out := make([]float64, len(k.scale))
	for d, n := range k.bins[bi].free {
		out[d] = k.scale[d] * float64(max(n, 0))
	}
	if !normalize(out) {
		for d := range out {
			out[d] = 1 / float64(len(out))
		}
	}
	k.by[bi] = out
	return out
}

// normalize scales the parts to 1 together. It returns false where they are all 0.
func normalize(part []float64) bool {
	sum := 0.0
	for _, x := range part {
		sum += x
	}
	if sum <= 0 {
		return false
	}
	for i := range part {
		part[i] /= sum
	}
	return true
}

// knapItem is an item type as the knapsack of one bin sees it.
type knapItem struct {
	// unit is the item type, most how many of it there are that fit an empty bin.
	unit, most int
	// value and size are those of one, density its value per size.
	value, size, density float64
}

// byDensity lists the stock as knapsack items, the most value per size first, with the bin type's weights.
func (k *relaxer) byDensity(bi int, s stock) []knapItem {
	list := k.knapItems(bi, s, k.weights(bi))
	slices.SortFunc(list, func(a, b knapItem) int {
		if order := descending(a.density, b.density); order != 0 {
			return order
		}
		return a.unit - b.unit
	})
	return list
}

// knapItems lists the stock as knapsack items in any order.
func (k *relaxer) knapItems(bi int, s stock, by []float64) []knapItem {
	k.list = k.list[:0]
	b, held := &k.bins[bi], k.held(bi)
	per := k.weight
	for d := range per {
		per[d] = by[d] / float64(max(b.free[d], 1))
	}
	for _, ti := range s.types {
		most := min(s.counts[ti], int(held[ti]))
		if most == 0 || s.values[ti] <= 0 {
			continue
		}
		size := 0.0
		for d, x := range k.needOf(ti) {
			size += per[d] * x
		}
		w := knapItem{unit: ti, most: most, value: s.values[ti], size: size, density: math.Inf(1)}
		if size > 0 {
			w.density = w.value / size
		}
		k.list = append(k.list, w)
	}
	k.work.add(len(s.types) + 1)
	return k.list
}

// needOf returns what one item of the type takes of each dimension.
func (k *relaxer) needOf(ti int) []float64 {
	d := len(k.scale)
	return k.needs[ti*d : ti*d+d]
}

// denser reports whether a is worth more per size than b.
func (a *knapItem) denser(b *knapItem) bool {
	return a.density > b.density || a.density == b.density && a.unit < b.unit
}

// heapify makes a heap of the items. Most of them are never looked at, so that a sort would do more work than it is worth,
// and container/heap, which calls through an interface, is several times slower here.
func heapify(list []knapItem) {
	for i := len(list)/2 - 1; i >= 0; i-- {
		siftDown(list, i)
	}
}

// siftDown moves the item down to its place in the heap.
func siftDown(list []knapItem, i int) {
	moved := list[i]
	for {
		c := 2*i + 1
		if c >= len(list) {
			break
		}
		if c+1 < len(list) && list[c+1].denser(&list[c]) {
			c++
		}
		if !list[c].denser(&moved) {
			break
		}
		list[i] = list[c]
		i = c
	}
	list[i] = moved
}

// pop takes the first item off the heap.
func pop(list []knapItem) []knapItem {
	last := len(list) - 1
	if last > 0 {
		list[0] = list[last]
		siftDown(list[:last], 0)
	}
	return list[:last]
}

// relaxedValue returns the most value of the sorted items that goes into the size, if the last one may be cut.
func relaxedValue(list []knapItem, left float64) float64 {
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

// relaxed returns the value of the relaxation with the bin type's weights: no bin holds more, whatever the weights.
func (k *relaxer) relaxed(bi int, s stock) float64 {
	list, value, left := k.knapItems(bi, s, k.weights(bi)), 0.0, 1.0
	for heapify(list); len(list) > 0 && left > 0; list = pop(list) {
		w := &list[0]
		x := min(float64(w.most), left/w.size)
		value += x * w.value
		left -= x * w.size
	}
	return value
}

// How often upperBound moves the weights where it bounds a bin of a cover, and where columns are priced, at first and
// where that does not suffice.
const (
	tightMoves   = 6
	quickMoves   = 3
	pricingMoves = 12
)

// upperBound returns what no bin holds more value than: the relaxation with the weights where it is least, or any that it
// finds on the way and that is no more than floor. The weights of the dimensions that the relaxed fill overdraws are raised until
// none is, at most so many times (a multiplicative subgradient step).
func (k *relaxer) upperBound(bi int, s stock, floor float64, moves int) float64 {
	at := k.weights(bi)
	best, over := k.fillRelaxed(bi, s, at)
	eta := 0.7
	for range moves {
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
		k.used, k.spare = k.spare, k.used
		v, o := k.fillRelaxed(bi, s, k.try)
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

// fillRelaxed returns the value of the relaxation with the weights, and the most by which it overdraws a dimension. The
// share of each dimension that it takes is in k.used.
func (k *relaxer) fillRelaxed(bi int, s stock, by []float64) (float64, float64) {
	list, value, left := k.knapItems(bi, s, by), 0.0, 1.0
	clear(k.used)
	for heapify(list); len(list) > 0 && left > 0; list = pop(list) {
		w := &list[0]
		x := min(float64(w.most), left/w.size)
		value += x * w.value
		left -= x * w.size
		for d, need := range k.needOf(w.unit) {
			k.used[d] += x * need
		}
	}
	over := 0.0
	for d, free := range k.bins[bi].free {
		k.used[d] /= float64(max(free, 1))
		over = max(over, k.used[d]-1)
	}
	return value, over
}
