package binpack

import (
	"math"
	"slices"
)

// What the search that follows the fills of one node may do.
const (
	searchSteps = 250
	returned    = 2
	tried       = 3
	// A node of so few pods is searched from nothing.
	fewPods = 14
	// helpings is how much of what fits a helping is; steer how strongly an uneven use of the dimensions is countered.
	helpings = 8
	steer    = 1.0
	// variants of the wares are blended: with and without the first two.
	variants = 4
	// Where a search takes many nodes apart and fills them anew, less will do for each: the search tries again.
	lightVariants = 1
	lightSteps    = 60
	// blended is how many wares are blended at most, those of the most value per size; the others fill what is left.
	blended = 40
)

// best looks for the most valuable content of a node of the lane, of at most n of each kind wanted, with the values of
// pi. It does not look for contents worth no more than floor. The steps: (1) weigh the resources so that the relaxation
// is worth least, which also bounds what can be found; (2) fill by value per weighted size; (3) fill in small helpings;
// (4) take the better one, give back a little of everything and search for a better use of what is free.
func (k *packer) best(li int, want, n []int, pi []float64, floor float64) pattern {
	k.moves = tightMoves
	most := k.most(li, want, n, pi, floor) // 1
	if most <= floor {
		return pattern{lane: li}
	}
	return k.contents(li, k.wares(li, want, n, pi, k.weights(li)), floor, most)
}

// contents is best with the wares by the weights at hand; most is a bound of what can be found.
func (k *packer) contents(li int, list []ware, floor, most float64) pattern {
	out := pattern{lane: li}
	take := func(value float64) {
		if value > out.value {
			out.value = value
			out.items = append(out.items[:0], k.items...)
		}
	}
	take(k.fill(li, list)) // 2
	if k.hasty && out.value > floor {
		return out
	}
	if len(list) > 1 && out.value < most*(1-1e-9) {
		blends := variants
		if k.light {
			blends = lightVariants
		}
		for without := range blends { // 3
			if out.value >= most*(1-1e-3) || k.hasty && out.value > floor {
				break
			}
			take(k.blend(li, list, without))
		}
		k.search(li, list, &out) // 4
	}
	return out
}

// fill is one greedy fill; what it took is in k.items and k.sum.
func (k *packer) fill(li int, list []ware) float64 {
	clear(k.sum)
	k.items = k.items[:0]
	value := 0.0
	for i := range list {
		w := &list[i]
		if n := k.beside(li, w.unit, w.most); n > 0 {
			k.items = append(k.items, Item{w.unit, n})
			k.sum.add(k.kinds[w.unit].need, int64(n))
			value += float64(n) * w.value
		}
	}
	k.work += len(list) + 1
	return value
}

// beside is how many of the kind, up to want, go beside k.items.
func (k *packer) beside(li, ki, want int) int {
	l := &k.lanes[li]
	n := min(want, timesBeside(l.free, k.sum, k.kinds[ki].need))
	if n > 0 && !k.kinds[ki].free() {
		n = min(n, k.p.more(k.items, ki, l.pool))
	}
	return n
}

// blend fills a node in small helpings, each of the kind with the most value per size, where a dimension that runs out
// before the others weighs more: so they run out together. A sorted fill cannot do that where a few kinds would fill the
// node alone. Without says, bit by bit, which of the first wares to leave out.
func (k *packer) blend(li int, list []ware, without int) float64 {
	clear(k.sum)
	k.items = k.items[:0]
	value := 0.0
	free, by := k.lanes[li].free, k.weights(li)
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
		for _, need := range k.kinds[k.blending[i].unit].need {
			k.blendNeeds = append(k.blendNeeds, float64(need))
		}
	}
	for len(k.blending) > 0 {
		k.steer(free, by)
		best, fit := k.helping(li)
		if best < 0 {
			break
		}
		w := &k.blending[best]
		n := max(fit/helpings, 1)
		k.items = addTo(k.items, Item{w.unit, n})
		k.sum.add(k.kinds[w.unit].need, int64(n))
		value += float64(n) * w.value
		if w.most -= n; w.most == 0 {
			k.unblend(best)
		}
	}
	return value + k.topUp(li, list)
}

// helping is the ware of the most value per size at the weights in k.try, and how many of it fit; -1 for none. Wares that it finds
// to fit no more are taken out.
func (k *packer) helping(li int) (int, int) {
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
		n := k.beside(li, w.unit, w.most)
		if n == 0 {
			k.unblend(i)
			i--
			continue
		}
		best, bestDensity, fit = i, w.value/size, n
	}
	k.work += len(k.blending)
	return best, fit
}

// unblend takes a ware out of those that are blended.
func (k *packer) unblend(i int) {
	dims := len(k.try)
	k.blending = slices.Delete(k.blending, i, i+1)
	k.blendNeeds = slices.Delete(k.blendNeeds, i*dims, (i+1)*dims)
}

// steer sets the weights for the next helping, in k.try.
func (k *packer) steer(free Vec, by []float64) {
	mean := 0.0
	for d, w := range by {
		k.used[d] = float64(k.sum[d]) / float64(max(free[d], 1))
		mean += w * k.used[d]
	}
	for d, w := range by {
		k.try[d] = max(w, 0.01) * math.Exp(steer*(k.used[d]-mean)/(1.02-min(mean, 1))) / float64(max(free[d], 1))
	}
}

// topUp fills what is free with the wares in their order, and returns what that is worth.
func (k *packer) topUp(li int, list []ware) float64 {
	value := 0.0
	for i := range list {
		w := &list[i]
		if n := k.beside(li, w.unit, w.most-k.taken(w.unit)); n > 0 {
			k.items = addTo(k.items, Item{w.unit, n})
			k.sum.add(k.kinds[w.unit].need, int64(n))
			value += float64(n) * w.value
		}
	}
	k.work += len(list)
	return value
}

func (k *packer) taken(ki int) int {
	for _, it := range k.items {
		if it.Type == ki {
			return it.N
		}
	}
	return 0
}

// search gives back up to returned pods of each kind of the best content so far, and goes depth first through what can
// be done with the room, taking up to tried pods fewer of a kind than would fit, to leave room for what comes after.
func (k *packer) search(li int, list []ware, out *pattern) {
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
				k.sum.add(k.kinds[it.Type].need, int64(n))
				value += float64(n) * w.value
				size += float64(n) * w.size
			}
		}
	}
	steps := searchSteps
	if k.light {
		steps = lightSteps
	}
	k.steps = steps
	k.walk(li, list, out, value, 1-size)
	k.work += (steps - k.steps) * 4
}

func (k *packer) walk(li int, list []ware, out *pattern, value, left float64) {
	if value > out.value*(1+1e-9) {
		out.value = value
		out.items = out.items[:0]
		for _, it := range k.items {
			out.items = addTo(out.items, it)
		}
	}
	if len(list) == 0 || k.steps <= 0 || value+cut(list, left) <= out.value*(1+1e-9) {
		return
	}
	k.steps--
	w := &list[0]
	need := k.kinds[w.unit].need
	most := k.beside(li, w.unit, w.most-k.taken(w.unit))
	for n := most; n >= max(most-tried, 0); n-- {
		if n > 0 {
			k.items = append(k.items, Item{w.unit, n})
			k.sum.add(need, int64(n))
		}
		k.walk(li, list[1:], out, value+float64(n)*w.value, left-float64(n)*w.size)
		if n > 0 {
			k.items = k.items[:len(k.items)-1]
			k.sum.add(need, -int64(n))
		}
	}
}

// addTo adds the item in place.
func addTo(items []Item, it Item) []Item {
	for i := range items {
		if items[i].Type == it.Type {
			items[i].N += it.N
			return items
		}
	}
	return append(items, it)
}
