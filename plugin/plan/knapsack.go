package plan

import "slices"

// packer fills single nodes for as much value as it finds. It owns the scratch memory and counts the work done, which is
// what budgets are given in: the same input does the same work.
type packer struct {
	p     *problem
	lanes []lane
	work  int
	// scratch of fill
	sum  vec
	rest vec
	// by is the weights that fitted each lane last.
	by      []weights
	order   []int
	density []float64
	items   []item
	shelf   []ware
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
	k := &packer{
		p: p, lanes: p.lanes(), sum: make(vec, len(p.m.dims)), rest: make(vec, len(p.m.dims)),
		density: make([]float64, len(p.units)), bySize: p.bySize(),
	}
	k.by = make([]weights, len(k.lanes))
	counts, pi := p.counts(), k.prices()
	for li := range k.lanes {
		k.by[li].cpu = 0.5
		k.most(li, counts, pi, coarse())
	}
	return k
}

// What the search that follows the fills of one node may do.
const (
	searchSteps = 150
	returned    = 2
	tried       = 3
)

// best looks for the most valuable content of a node of the lane, of at most counts units each with the values of pi. It
// does not look for contents worth no more than floor. The steps: (1) weigh the resources so that the relaxation is worth
// least, which also bounds what can be found; (2) fill by value per weighted size; (3) fill in small helpings; (4) take
// the better one, give back a little of everything and search for a better use of what is free.
func (k *packer) best(li int, counts []int, pi []float64, floor float64) pattern {
	out := pattern{lane: li}
	most, by := k.most(li, counts, pi, fine()) // 1
	if most <= floor {
		return out
	}
	take := func(value float64) {
		if value > out.value {
			out.value = value
			out.items = append(out.items[:0], k.items...)
		}
	}
	take(k.fill(li, counts, pi, by)) // 2
	if len(k.order) > 1 && out.value < most*(1-1e-9) {
		take(k.blend(li, counts, pi))                                     // 3
		k.search(walk{li: li, counts: counts, pi: pi, by: by, out: &out}) // 4
	}
	return out
}

// blend fills a large node in small helpings, each of the unit with the most value per share of what is still free, so
// that the resources run out together. A sorted fill cannot do that where a few kinds would fill the node alone.
func (k *packer) blend(li int, counts []int, pi []float64) float64 {
	l := &k.lanes[li]
	clear(k.sum)
	k.items = k.items[:0]
	value := 0.0
	rest := k.rest
	copy(rest, l.free)
	for len(k.order) > 0 {
		best, bestDensity, fit := -1, 0.0, 0
		for i := 0; i < len(k.order); i++ {
			ui := k.order[i]
			if density := pi[ui] / (helping(k.p.units[ui].need, rest) + 1e-9); density > bestDensity {
				n := k.fits(li, ui, counts[ui]-k.taken(ui))
				if n == 0 {
					k.order = slices.Delete(k.order, i, i+1)
					i--
					continue
				}
				best, bestDensity, fit = ui, density, n
			}
		}
		k.work += len(k.order)
		if best < 0 {
			break
		}
		n := max(fit/8, 1)
		k.items = addTo(k.items, item{best, n})
		need := k.p.units[best].need
		k.sum.add(need, int64(n))
		rest.add(need, -int64(n))
		value += float64(n) * pi[best]
	}
	return value
}

// helping is the share of what is free that one unit takes of cpu and memory, and half as much for all else.
func helping(need, rest vec) float64 {
	s := 0.0
	for d, n := range need {
		if n == 0 {
			continue
		}
		x := float64(n) / float64(max(rest[d], 1))
		if d != dimCPU && d != dimMemory {
			x *= 0.25
		}
		s += x
	}
	return s
}

func (k *packer) taken(ui int) int {
	for _, it := range k.items {
		if it.unit == ui {
			return it.n
		}
	}
	return 0
}

// fill is one greedy fill; what it took is in k.items and k.sum.
func (k *packer) fill(li int, counts []int, pi []float64, by weights) float64 {
	k.sort(li, counts, pi, by)
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
func (k *packer) sort(li int, counts []int, pi []float64, by weights) {
	l := &k.lanes[li]
	k.order = k.order[:0]
	for _, ui := range l.units {
		if counts[ui] > 0 && pi[ui] > 0 {
			k.order = append(k.order, ui)
			k.density[ui] = pi[ui] / (by.size(k.p.units[ui].need, l.free) + 1e-9)
		}
	}
	slices.SortFunc(k.order, func(a, b int) int {
		switch {
		case k.density[a] > k.density[b]:
			return -1
		case k.density[a] < k.density[b]:
			return 1
		}
		return a - b
	})
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

// walk is what stays the same during a search.
type walk struct {
	li     int
	counts []int
	pi     []float64
	by     weights
	out    *pattern
}

// search gives back up to returned pods of each unit of the best content so far, and goes depth first through what can
// be done with the room, taking up to tried pods fewer of a unit than would fit, to leave room for what comes after.
func (k *packer) search(w walk) {
	k.sort(w.li, w.counts, w.pi, w.by)
	clear(k.sum)
	k.items = k.items[:0]
	value := 0.0
	for _, it := range w.out.items {
		if n := it.n - returned; n > 0 {
			k.items = append(k.items, item{it.unit, n})
			k.sum.add(k.p.units[it.unit].need, int64(n))
			value += float64(n) * w.pi[it.unit]
		}
	}
	k.steps = searchSteps
	k.walk(w, 0, value)
	k.work += (searchSteps - k.steps) / 2
}

func (k *packer) walk(w walk, at int, value float64) {
	if value > w.out.value*(1+1e-9) {
		w.out.value = value
		w.out.items = w.out.items[:0]
		for _, it := range k.items {
			w.out.items = addTo(w.out.items, it)
		}
	}
	if at == len(k.order) || k.steps <= 0 || value+k.density[k.order[at]]*k.left(w) <= w.out.value*(1+1e-9) {
		return
	}
	k.steps--
	ui := k.order[at]
	most := k.fits(w.li, ui, w.counts[ui]-k.taken(ui))
	for n := most; n >= max(most-tried, 0); n-- {
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

// addTo adds the item in place.
func addTo(items []item, it item) []item {
	for i := range items {
		if items[i].unit == it.unit {
			items[i].n += it.n
			return items
		}
	}
	return append(items, it)
}

// left is the size that is still free, for the bound of the search.
func (k *packer) left(w walk) float64 {
	return 1 - w.by.size(k.sum, k.lanes[w.li].free)
}
