package binpack

import (
	"math"
	"slices"
)

// What the search that follows the fills of one bin may do.
const (
	searchSteps = 250
	returned    = 2
	tried       = 3
	// A bin of so few pods is searched from nothing.
	fewPods = 14
	// portions is how much of what fits a portion is; steering how strongly an uneven use of the dimensions is countered.
	portions = 8
	steering = 1.0
	// variants of the knapsack items are blended: with and without the first two.
	variants = 4
	// Where many bins are emptied and filled again, less will do for each: there are more tries.
	lightVariants = 1
	lightSteps    = 60
	// blended is how many knapsack items are blended at most, those of the most value per size; the others fill what is left.
	blended = 40
)

// effort says how hard the content of one bin is looked for.
type effort struct {
	// any says that the first content worth more than the floor will do.
	any bool
	// variants is how many blends are tried, steps how many nodes the depth-first search may look at.
	variants, steps int
}

func thorough() effort { return effort{variants: variants, steps: searchSteps} }

func light() effort { return effort{variants: lightVariants, steps: lightSteps} }

func hasty() effort { return effort{any: true, variants: variants, steps: searchSteps} }

// target is the value that a content has to exceed, and an upper bound of what can be found.
type target struct{ floor, most float64 }

// filler looks for the most valuable content of a single bin with heuristics.
type filler struct {
	*relaxer
	// items is the content at hand, sum what it takes.
	items []Item
	sum   Vec
	// scratch of blend, and the steps that are left to descend
	blending   []knapItem
	blendNeeds []float64
	steps      int
}

// best looks for the most valuable content of a bin. It does not look for contents worth no more than floor. The steps:
// (1) weigh the dimensions so that the relaxation is worth least, which also bounds what can be found; (2) fill by value per
// weighted size; (3) fill in small portions; (4) take the better one, give back a little of everything and search depth
// first for a better use of what is free.
func (k *filler) best(bi int, s stock, floor float64, e effort) pattern {
	most := k.upperBound(bi, s, floor, tightMoves) // 1
	if most <= floor {
		return pattern{bin: bi}
	}
	return k.contents(bi, k.byDensity(bi, s), target{floor, most}, e)
}

// contents is best with the items by the weights at hand.
func (k *filler) contents(bi int, list []knapItem, t target, e effort) pattern {
	out := pattern{bin: bi}
	take := func(value float64) {
		if value > out.value {
			out.value = value
			out.items = append(out.items[:0], k.items...)
		}
	}
	take(k.fill(bi, list)) // 2
	if e.any && out.value > t.floor {
		return out
	}
	if len(list) > 1 && out.value < t.most*(1-1e-9) {
		for without := range e.variants { // 3
			if out.value >= t.most*(1-1e-3) || e.any && out.value > t.floor {
				break
			}
			take(k.blend(bi, list, without))
		}
		k.search(bi, list, &out, e.steps) // 4
	}
	return out
}

// fill is one greedy fill. What it takes is in k.items and k.sum.
func (k *filler) fill(bi int, list []knapItem) float64 {
	clear(k.sum)
	k.items = k.items[:0]
	value := 0.0
	for i := range list {
		w := &list[i]
		if n := k.beside(bi, w.unit, w.most); n > 0 {
			k.items = append(k.items, Item{w.unit, n})
			k.sum.add(k.types[w.unit].need, int64(n))
			value += float64(n) * w.value
		}
	}
	k.work.add(len(list) + 1)
	return value
}

// beside returns how many of the item type, up to want, go beside k.items.
func (k *filler) beside(bi, ti, want int) int {
	l := &k.bins[bi]
	n := min(want, timesBeside(l.free, k.sum, k.types[ti].need))
	if n > 0 && !k.types[ti].free() {
		n = min(n, k.p.more(k.items, ti, l.pool))
	}
	return n
}

// blend fills a bin in small portions, each of the item with the most value per size, where a dimension that runs out
// before the others weighs more: so they run out together. A sorted fill cannot do that where a few item types would
// fill the bin alone. The bits of without say which of the first items to leave out.
func (k *filler) blend(bi int, list []knapItem, without int) float64 {
	clear(k.sum)
	k.items = k.items[:0]
	value := 0.0
	free, by := k.bins[bi].free, k.weights(bi)
	k.blending = k.blending[:0]
	for i := range list {
		if i >= 2 || without>>i&1 == 0 {
			k.blending = append(k.blending, list[i])
		}
		if len(k.blending) == blended {
			break
		}
	}
	k.blendNeeds = k.blendNeeds[:0]
	for i := range k.blending {
		k.blendNeeds = append(k.blendNeeds, k.needOf(k.blending[i].unit)...)
	}
	for len(k.blending) > 0 {
		k.steer(free, by)
		best, fit := k.portion(bi)
		if best < 0 {
			break
		}
		w := &k.blending[best]
		n := max(fit/portions, 1)
		k.items = addTo(k.items, Item{w.unit, n})
		k.sum.add(k.types[w.unit].need, int64(n))
		value += float64(n) * w.value
		if w.most -= n; w.most == 0 {
			k.unblend(best)
		}
	}
	return value + k.topUp(bi, list)
}

// portion returns the item of the most value per size at the weights in k.try, and how many of it fit; -1 for none. It
// takes items out that fit no more.
func (k *filler) portion(bi int) (int, int) {
	best, bestDensity, fit, dims := -1, 0.0, 0, len(k.try)
	for i := 0; i < len(k.blending); i++ {
		size := 1e-12
		for d, need := range k.blendNeeds[i*dims : (i+1)*dims] {
			size += k.try[d] * need
		}
		w := &k.blending[i]
		if w.value <= bestDensity*size {
			continue
		}
		n := k.beside(bi, w.unit, w.most)
		if n == 0 {
			k.unblend(i)
			i--
			continue
		}
		best, bestDensity, fit = i, w.value/size, n
	}
	k.work.add(len(k.blending))
	return best, fit
}

// unblend takes an item out of those that are blended.
func (k *filler) unblend(i int) {
	dims := len(k.try)
	k.blending = slices.Delete(k.blending, i, i+1)
	k.blendNeeds = slices.Delete(k.blendNeeds, i*dims, (i+1)*dims)
}

// steer sets the weights for the next portion, in k.try.
func (k *filler) steer(free Vec, by []float64) {
	mean := 0.0
	for d, w := range by {
		k.used[d] = float64(k.sum[d]) / float64(max(free[d], 1))
		mean += w * k.used[d]
	}
	for d, w := range by {
		k.try[d] = max(w, 0.01) * math.Exp(steering*(k.used[d]-mean)/(1.02-min(mean, 1))) / float64(max(free[d], 1))
	}
}

// topUp fills what is free with the items in their order, and returns what that is worth.
func (k *filler) topUp(bi int, list []knapItem) float64 {
	value := 0.0
	for i := range list {
		w := &list[i]
		if n := k.beside(bi, w.unit, w.most-k.taken(w.unit)); n > 0 {
			k.items = addTo(k.items, Item{w.unit, n})
			k.sum.add(k.types[w.unit].need, int64(n))
			value += float64(n) * w.value
		}
	}
	k.work.add(len(list))
	return value
}

// taken returns how many of the item type are in k.items.
func (k *filler) taken(ti int) int {
	for _, it := range k.items {
		if it.Type == ti {
			return it.N
		}
	}
	return 0
}

// search gives back up to returned items of each type of the best content so far, and goes depth first through what can
// be done with the room, taking up to tried items fewer of a type than would fit, to leave room for what comes after.
func (k *filler) search(bi int, list []knapItem, out *pattern, steps int) {
	clear(k.sum)
	k.items = k.items[:0]
	value, size, pods := 0.0, 0.0, 0
	for _, it := range out.items {
		pods += it.N
	}
	for i := range list {
		w := &list[i]
		for _, it := range out.items {
			if n := it.N - returned; it.Type == w.unit && n > 0 && pods > fewPods {
				k.items = append(k.items, Item{it.Type, n})
				k.sum.add(k.types[it.Type].need, int64(n))
				value += float64(n) * w.value
				size += float64(n) * w.size
			}
		}
	}
	k.steps = steps
	k.descend(bi, list, out, value, 1-size)
	k.work.add((steps - k.steps) * 4)
}

// descend is one step of the depth-first search: it ends where even the relaxation of what is left is worth no more than
// the best content.
func (k *filler) descend(bi int, list []knapItem, out *pattern, value, left float64) {
	if value > out.value*(1+1e-9) {
		out.value = value
		out.items = out.items[:0]
		for _, it := range k.items {
			out.items = addTo(out.items, it)
		}
	}
	if len(list) == 0 || k.steps <= 0 || value+relaxedValue(list, left) <= out.value*(1+1e-9) {
		return
	}
	k.steps--
	w := &list[0]
	need := k.types[w.unit].need
	most := k.beside(bi, w.unit, w.most-k.taken(w.unit))
	for n := most; n >= max(most-tried, 0); n-- {
		if n > 0 {
			k.items = append(k.items, Item{w.unit, n})
			k.sum.add(need, int64(n))
		}
		k.descend(bi, list[1:], out, value+float64(n)*w.value, left-float64(n)*w.size)
		if n > 0 {
			k.items = k.items[:len(k.items)-1]
			k.sum.add(need, -int64(n))
		}
	}
}
