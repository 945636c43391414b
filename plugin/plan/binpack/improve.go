package binpack

import (
	"math/rand/v2"
	"slices"
	"sort"
)

// search is a local search over the boxes of one plan: boxes are taken apart, a few at a time, what was in them is put
// into free room of others, and the rest is packed anew.
type search struct {
	*composer
	pi    []float64
	boxes []box
	room  [][]int64
	// trial is scratch for another room.
	trial [][]int64
	rng   *rand.Rand
	// counts is scratch: what has to be placed, by kind.
	counts []int
	// roomy are the boxes with the most free room, as of the last look.
	roomy  []int
	looked int
	// prices are those of the lanes.
	prices []float64
	// changed are boxes that the current step fills up, by index.
	changed map[int]box
	// cost is that of the boxes.
	cost float64
}

// What one step of the search may touch.
const (
	maxVictims = 6
	roomyBoxes = 24
	lookAgain  = 60
	// patience is how many steps without success the search takes per box.
	patience = 12
	// nearlyBest is the tolerance with which what was taken apart is packed anew.
	nearlyBest = 0.02
)

// effort is how much work may be done, how much of it without any gain worth it, and the bill that is good enough.
type effort struct {
	work, look int
	bill       float64
}

// looks is how often the search looks back within its work, looksAtPatterns how often where it begins with the best patterns, which leave
// it little; leastGain the share that it must have gained since to go on.
const (
	looks           = 10
	looksAtPatterns = 20
	leastGain       = 0.0002
)

// goodEnough is the bill, as a multiple of the lower bound, from which on it is not worth the work to improve a plan.
const goodEnough = 1.002

// improve makes boxes cheaper until the effort is used up: nodes are filled lightly at first, and as well as can be where that gains no
// more.
func (c *composer) improve(boxes []box, pi []float64, room [][]int64, e effort) []box {
	s := &search{trial: c.p.cloneRoom(), composer: c, pi: pi, boxes: boxes, room: room, rng: rand.New(rand.NewPCG(1, 1)), counts: make([]int, len(c.kinds)), changed: map[int]box{}}
	for li := range c.lanes {
		s.prices = append(s.prices, c.lanes[li].price)
	}
	s.shrink()
	c.light, c.tolerance = true, nearlyBest
	defer func() { c.light, c.tolerance = false, 0 }()
	until := c.work + e.work
	s.cost = s.bill(s.boxes)
	look, was := c.work+e.look, s.cost
	for fails := 0; c.work < until && s.cost > e.bill && fails < patience*(len(s.boxes)+3); fails++ {
		before := c.work
		if s.step() {
			fails = 0
		}
		c.work = max(c.work, before+20)
		if c.work > look {
			if s.cost > was*(1-leastGain) {
				if !c.light {
					break
				}
				c.light, c.tolerance = false, 0
			}
			look, was = c.work+e.look, s.cost
		}
	}
	s.merge()
	return s.boxes
}

// shrink buys each box as the cheapest lane that holds it.
func (s *search) shrink() {
	for i := range s.boxes {
		b := &s.boxes[i]
		if i > 0 && b.lane == s.boxes[i-1].lane && len(b.items) > 0 && len(s.boxes[i-1].items) == len(b.items) && &b.items[0] == &s.boxes[i-1].items[0] {
			continue
		}
		price := s.lanes[b.lane].price
		s.p.spend(&s.lanes[b.lane], -1, s.room)
		if li := s.cheapest(b.items, b.sum, price-1e-12, s.room); li >= 0 {
			b.lane = li
		}
		s.p.spend(&s.lanes[b.lane], 1, s.room)
	}
}

// cheapest is the cheapest lane for less than the price that holds the items, -1 if there is none.
func (s *search) cheapest(items []Item, sum Vec, below float64, room [][]int64) int {
	// No lane holds more than top value per dollar.
	from := sort.SearchFloat64s(s.prices, worth(items, s.pi)/s.most()*(1-1e-6))
	for li := from; li < len(s.lanes) && s.prices[li] < below; li++ {
		s.work++
		l := &s.lanes[li]
		if l.free.holds(sum) && s.takesAll(li, items) && s.p.affordable(l, 1, room) == 1 {
			return li
		}
	}
	return -1
}

// most is the most value per dollar of any lane.
func (c *composer) most() float64 { return max(slices.Max(c.top), 1e-9) }

func (s *search) takesAll(li int, items []Item) bool {
	for i, it := range items {
		if !s.kinds[it.Type].takes.has(li) {
			return false
		}
		if len(s.kinds[it.Type].demands) > 0 && s.p.more(items[:i], it.Type, s.lanes[li].pool) < it.N {
			return false
		}
	}
	return true
}

// waste is what the box costs beyond the value of its content.
func (s *search) waste(i int) float64 {
	return s.prices[s.boxes[i].lane] - worth(s.boxes[i].items, s.pi)
}

// victims are boxes to take apart: a wasteful one, and others that could have run its pods.
func (s *search) victims() []int {
	n := len(s.boxes)
	first, worst := -1, 0.0
	for range 5 {
		i := s.rng.IntN(n)
		if w := s.waste(i); first < 0 || w > worst {
			first, worst = i, w
		}
	}
	out := []int{first}
	ki := s.boxes[first].items[s.rng.IntN(len(s.boxes[first].items))].Type
	for range s.rng.IntN(maxVictims) {
		next, most := -1, 0.0
		for range 4 {
			i := s.rng.IntN(n)
			if !s.kinds[ki].takes.has(s.boxes[i].lane) || slices.Contains(out, i) {
				continue
			}
			if w := s.waste(i); next < 0 || w > most {
				next, most = i, w
			}
		}
		if next >= 0 {
			out = append(out, next)
		}
	}
	s.work += 10 * len(out)
	return out
}

// step takes boxes apart and keeps the result if it is cheaper, or as cheap with no more boxes. It says whether it is
// cheaper.
func (s *search) step() bool {
	victims := s.victims()
	was := s.takeApart(victims)
	s.insert(victims)
	s.want = slices.DeleteFunc(s.want, func(ki int) bool { return s.counts[ki] == 0 })
	value := 0.0
	for _, ki := range s.want {
		value += float64(s.counts[ki]) * s.pi[ki]
	}
	fresh, ok := s.recreate(value, was)
	for _, ki := range s.want {
		s.counts[ki] = 0
	}
	cost := 0.0
	for _, b := range fresh {
		cost += s.prices[b.lane]
	}
	if !ok || cost >= was+1e-9 || cost >= was-1e-9 && len(fresh) > len(victims) {
		for _, v := range victims {
			s.p.spend(&s.lanes[s.boxes[v].lane], 1, s.room)
		}
		return false
	}
	s.keep(victims, fresh)
	s.cost += cost - was
	return cost < was-1e-9
}

// takeApart puts the content of the victims into the counts, and returns their price.
func (s *search) takeApart(victims []int) float64 {
	was := 0.0
	s.want = s.want[:0]
	clear(s.changed)
	for _, v := range victims {
		was += s.prices[s.boxes[v].lane]
		s.p.spend(&s.lanes[s.boxes[v].lane], -1, s.room)
		for _, it := range s.boxes[v].items {
			if s.counts[it.Type] == 0 {
				s.want = append(s.want, it.Type)
			}
			s.counts[it.Type] += it.N
		}
	}
	slices.Sort(s.want)
	return was
}

// keep puts the fresh boxes in the place of the victims.
func (s *search) keep(victims []int, fresh []box) {
	for _, b := range fresh {
		s.p.spend(&s.lanes[b.lane], 1, s.room)
	}
	for i, b := range s.changed {
		s.boxes[i] = b
	}
	for i, v := range victims {
		if i < len(fresh) {
			s.boxes[v] = fresh[i]
			continue
		}
		s.boxes[v].items = nil
	}
	if len(fresh) > len(victims) {
		s.boxes = append(s.boxes, fresh[len(victims):]...)
	} else if len(fresh) < len(victims) {
		s.boxes = slices.DeleteFunc(s.boxes, func(b box) bool { return b.items == nil })
		s.looked = 0
	}
}

// recreate packs the counts for less than limit.
func (s *search) recreate(value, limit float64) ([]box, bool) {
	if len(s.want) == 0 {
		return nil, true
	}
	if value/s.most() >= limit {
		return nil, false
	}
	all, alone := box{sum: make(Vec, s.p.dims)}, true
	for _, ki := range s.want {
		alone = alone && (s.kinds[ki].free() || s.p.more(all.items, ki, 0) >= s.counts[ki])
		all.items = append(all.items, Item{ki, s.counts[ki]})
		all.sum.add(s.kinds[ki].need, int64(s.counts[ki]))
	}
	if alone {
		if li := s.cheapest(all.items, all.sum, limit+1e-9, s.room); li >= 0 {
			all.lane = li
			return []box{all}, true
		}
	}
	room := s.copyRoom()
	want := slices.Clone(s.want)
	list, ok := s.composeWanted(s.counts, s.pi, room, value, limit+1e-9)
	ok = ok && len(s.want) == 0
	s.want = want
	if !ok {
		return nil, false
	}
	out := s.packer.boxes(list)
	for i := range out {
		s.p.spend(&s.lanes[out[i].lane], -1, room)
		if li := s.cheapest(out[i].items, out[i].sum, s.prices[out[i].lane]-1e-12, room); li >= 0 {
			out[i].lane = li
		}
		s.p.spend(&s.lanes[out[i].lane], 1, room)
	}
	return out, true
}

// copyRoom is a copy of what the limits leave.
func (s *search) copyRoom() [][]int64 {
	for i := range s.room {
		copy(s.trial[i], s.room[i])
	}
	return s.trial
}

// insert puts what it can of the counts into free room of roomy boxes that are no victims.
func (s *search) insert(victims []int) {
	if s.looked--; s.looked < 0 {
		s.look()
	}
	for _, i := range s.roomy {
		if slices.Contains(victims, i) {
			continue
		}
		b, copied := s.boxes[i], false
		l := &s.lanes[b.lane]
		for _, ki := range s.want {
			if s.counts[ki] == 0 || !s.kinds[ki].takes.has(b.lane) {
				continue
			}
			c := min(s.counts[ki], timesBeside(l.free, b.sum, s.kinds[ki].need))
			if c == 0 {
				continue
			}
			if !s.kinds[ki].free() {
				if c = min(c, s.p.more(b.items, ki, l.pool)); c <= 0 {
					continue
				}
			}
			if !copied {
				b.items, b.sum, copied = slices.Clone(b.items), b.sum.clone(), true
			}
			b.items = addTo(b.items, Item{ki, c})
			b.sum.add(s.kinds[ki].need, int64(c))
			s.counts[ki] -= c
		}
		s.work += len(s.want) / 2
		if copied {
			s.changed[i] = b
		}
	}
}

// look finds the boxes with the most room.
func (s *search) look() {
	s.looked = lookAgain
	room := make([]float64, len(s.boxes))
	s.roomy = s.roomy[:0]
	for i := range s.boxes {
		b := &s.boxes[i]
		for d, n := range s.lanes[b.lane].free {
			room[i] += s.scale[d] * float64(n-b.sum[d])
		}
		s.roomy = append(s.roomy, i)
	}
	s.work += len(s.boxes)
	slices.SortStableFunc(s.roomy, func(a, b int) int {
		switch {
		case room[a] > room[b]:
			return -1
		case room[a] < room[b]:
			return 1
		}
		return 0
	})
	s.roomy = s.roomy[:min(len(s.roomy), roomyBoxes)]
}
