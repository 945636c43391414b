package binpack

import (
	"math/rand/v2"
	"slices"
	"sort"
)

// search is a large neighborhood search over the boxes of one packing (Shaw 1998; ruin and recreate, Schrimpf 2000): a
// few boxes are ruined, what was in them is put into free room of others, and the rest is packed again by the greedy
// cover. The result is kept if it is cheaper.
type search struct {
	*greedyCover
	pi    []float64
	boxes []box
	room  [][]int64
	// trial is scratch for another room.
	trial [][]int64
	rng   *rand.Rand
	// counts is scratch: how many of each item type have to be placed.
	counts []int
	// roomy are the boxes with the most free room, as of the last look.
	roomy  []int
	looked int
	// prices are those of the bin types.
	prices []float64
	// removed are the item types with a count.
	removed []int
	// changed are boxes that the current step fills up, by index.
	changed map[int]box
	// cost is the bill of the boxes, in USD per hour.
	cost float64
}

// What one step of the search may touch.
const (
	maxRuined  = 6
	roomyBoxes = 24
	lookAgain  = 60
	// patience is how many steps without success the search takes per box.
	patience = 12
	// nearlyBest is the tolerance with which the items of ruined boxes are packed again.
	nearlyBest = 0.02
)

// searchLimits are how much work may be done, how much of it without any gain worth it, and the bill that is good enough.
type searchLimits struct {
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

// improve makes the boxes cheaper until the limits: bins are filled lightly at first, and as well as can be where that
// gains no more.
func improve(c *greedyCover, o outcome, values []float64, room [][]int64, l searchLimits) []box {
	s := &search{
		trial: c.p.cloneRoom(), greedyCover: c, pi: values, boxes: o.boxes, room: room, rng: rand.New(rand.NewPCG(1, 1)),
		counts: make([]int, len(c.types)), changed: map[int]box{},
	}
	for bi := range c.bins {
		s.prices = append(s.prices, c.bins[bi].price)
	}
	s.shrink()
	how := coverEffort{effort: light(), tolerance: nearlyBest}
	until := c.work.done + l.work
	s.cost = s.p.bill(s.boxes)
	look, was := c.work.done+l.look, s.cost
	for fails, lightly := 0, true; c.work.within(until) && s.cost > l.bill && fails < patience*(len(s.boxes)+3); fails++ {
		before := c.work.done
		if s.step(how) {
			fails = 0
		}
		c.work.atLeast(before + 20)
		if c.work.done > look {
			if s.cost > was*(1-leastGain) {
				if !lightly {
					break
				}
				how, lightly = coverEffort{effort: thorough()}, false
			}
			look, was = c.work.done+l.look, s.cost
		}
	}
	s.merge()
	return s.boxes
}

// shrink buys each box as the cheapest bin type that holds it.
func (s *search) shrink() {
	for i := range s.boxes {
		b := &s.boxes[i]
		if i > 0 && b.bin == s.boxes[i-1].bin && len(b.items) > 0 && len(s.boxes[i-1].items) == len(b.items) && &b.items[0] == &s.boxes[i-1].items[0] {
			continue
		}
		price := s.bins[b.bin].price
		s.p.spend(&s.bins[b.bin], -1, s.room)
		if bi := s.cheapest(b.items, b.sum, price-1e-12, s.room); bi >= 0 {
			b.bin = bi
		}
		s.p.spend(&s.bins[b.bin], 1, s.room)
	}
}

// cheapest returns the cheapest bin type for less than the price that holds the items, -1 if there is none.
func (s *search) cheapest(items []Item, sum Vec, below float64, room [][]int64) int {
	// No bin holds more than top value per dollar.
	from := sort.SearchFloat64s(s.prices, worth(items, s.pi)/s.most*(1-1e-6))
	for bi := from; bi < len(s.bins) && s.prices[bi] < below; bi++ {
		s.work.add(1)
		l := &s.bins[bi]
		if l.free.holds(sum) && s.takesAll(bi, items) && s.p.affordable(l, 1, room) == 1 {
			return bi
		}
	}
	return -1
}

func (s *search) takesAll(bi int, items []Item) bool {
	for i, it := range items {
		if !s.types[it.Type].takes.Has(bi) {
			return false
		}
		if len(s.types[it.Type].choices) > 0 && s.p.more(items[:i], it.Type, s.bins[bi].pool) < it.N {
			return false
		}
	}
	return true
}

// waste returns what the box costs beyond the value of its content.
func (s *search) waste(i int) float64 {
	return s.prices[s.boxes[i].bin] - worth(s.boxes[i].items, s.pi)
}

// pickRuined picks boxes to ruin: a wasteful one, and others that could have held its items.
func (s *search) pickRuined() []int {
	n := len(s.boxes)
	first, worst := -1, 0.0
	for range 5 {
		i := s.rng.IntN(n)
		if w := s.waste(i); first < 0 || w > worst {
			first, worst = i, w
		}
	}
	out := []int{first}
	ti := s.boxes[first].items[s.rng.IntN(len(s.boxes[first].items))].Type
	for range s.rng.IntN(maxRuined) {
		next, most := -1, 0.0
		for range 4 {
			i := s.rng.IntN(n)
			if !s.types[ti].takes.Has(s.boxes[i].bin) || slices.Contains(out, i) {
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
	s.work.add(10 * len(out))
	return out
}

// step ruins boxes and keeps the result if it is cheaper, or as cheap with no more boxes. It reports whether it is
// cheaper.
func (s *search) step(how coverEffort) bool {
	ruined := s.pickRuined()
	was := s.ruin(ruined)
	s.fillRoom(ruined)
	s.removed = slices.DeleteFunc(s.removed, func(ti int) bool { return s.counts[ti] == 0 })
	value := 0.0
	for _, ti := range s.removed {
		value += float64(s.counts[ti]) * s.pi[ti]
	}
	fresh, ok := s.recreate(value, was, how)
	for _, ti := range s.removed {
		s.counts[ti] = 0
	}
	cost := 0.0
	for _, b := range fresh {
		cost += s.prices[b.bin]
	}
	if !ok || cost >= was+1e-9 || cost >= was-1e-9 && len(fresh) > len(ruined) {
		for _, v := range ruined {
			s.p.spend(&s.bins[s.boxes[v].bin], 1, s.room)
		}
		return false
	}
	s.keep(ruined, fresh)
	s.cost += cost - was
	return cost < was-1e-9
}

// ruin puts the content of the boxes into the counts, and returns their price.
func (s *search) ruin(ruined []int) float64 {
	was := 0.0
	s.removed = s.removed[:0]
	clear(s.changed)
	for _, v := range ruined {
		was += s.prices[s.boxes[v].bin]
		s.p.spend(&s.bins[s.boxes[v].bin], -1, s.room)
		for _, it := range s.boxes[v].items {
			if s.counts[it.Type] == 0 {
				s.removed = append(s.removed, it.Type)
			}
			s.counts[it.Type] += it.N
		}
	}
	slices.Sort(s.removed)
	return was
}

// keep puts the fresh boxes in the place of the ruined ones.
func (s *search) keep(ruined []int, fresh []box) {
	for _, b := range fresh {
		s.p.spend(&s.bins[b.bin], 1, s.room)
	}
	for i, b := range s.changed {
		s.boxes[i] = b
	}
	for i, v := range ruined {
		if i < len(fresh) {
			s.boxes[v] = fresh[i]
			continue
		}
		s.boxes[v].items = nil
	}
	if len(fresh) > len(ruined) {
		s.boxes = append(s.boxes, fresh[len(ruined):]...)
	} else if len(fresh) < len(ruined) {
		s.boxes = slices.DeleteFunc(s.boxes, func(b box) bool { return b.items == nil })
		s.looked = 0
	}
}

// recreate packs the counts for less than limit.
func (s *search) recreate(value, limit float64, how coverEffort) ([]box, bool) {
	if len(s.removed) == 0 {
		return nil, true
	}
	if value/s.most >= limit {
		return nil, false
	}
	all, alone := box{sum: make(Vec, s.p.dims)}, true
	for _, ti := range s.removed {
		alone = alone && (s.types[ti].free() || s.p.more(all.items, ti, 0) >= s.counts[ti])
		all.items = append(all.items, Item{ti, s.counts[ti]})
		all.sum.add(s.types[ti].need, int64(s.counts[ti]))
	}
	if alone {
		if bi := s.cheapest(all.items, all.sum, limit+1e-9, s.room); bi >= 0 {
			all.bin = bi
			return []box{all}, true
		}
	}
	room := s.copyRoom()
	list, ok := s.cover(stock{types: s.removed, counts: s.counts, values: s.pi}, room, limit+1e-9, how)
	if !ok {
		return nil, false
	}
	out := boxes(s.p, list)
	for i := range out {
		s.p.spend(&s.bins[out[i].bin], -1, room)
		if bi := s.cheapest(out[i].items, out[i].sum, s.prices[out[i].bin]-1e-12, room); bi >= 0 {
			out[i].bin = bi
		}
		s.p.spend(&s.bins[out[i].bin], 1, room)
	}
	return out, true
}

// copyRoom returns a copy of what the limits leave.
func (s *search) copyRoom() [][]int64 {
	for i := range s.room {
		copy(s.trial[i], s.room[i])
	}
	return s.trial
}

// fillRoom puts what it can of the counts into free room of roomy boxes that are not ruined.
func (s *search) fillRoom(ruined []int) {
	if s.looked--; s.looked < 0 {
		s.findRoomy()
	}
	for _, i := range s.roomy {
		if slices.Contains(ruined, i) {
			continue
		}
		b, copied := s.boxes[i], false
		l := &s.bins[b.bin]
		for _, ti := range s.removed {
			if s.counts[ti] == 0 || !s.types[ti].takes.Has(b.bin) {
				continue
			}
			c := min(s.counts[ti], timesBeside(l.free, b.sum, s.types[ti].need))
			if c == 0 {
				continue
			}
			if !s.types[ti].free() {
				if c = min(c, s.p.more(b.items, ti, l.pool)); c <= 0 {
					continue
				}
			}
			if !copied {
				b.items, b.sum, copied = slices.Clone(b.items), b.sum.clone(), true
			}
			b.items = addTo(b.items, Item{ti, c})
			b.sum.add(s.types[ti].need, int64(c))
			s.counts[ti] -= c
		}
		s.work.add(len(s.removed) / 2)
		if copied {
			s.changed[i] = b
		}
	}
}

// findRoomy finds the boxes with the most room, of equal ones those with the lowest index.
func (s *search) findRoomy() {
	s.looked = lookAgain
	s.roomy = s.roomy[:0]
	rooms := make([]float64, 0, roomyBoxes+1)
	for i := range s.boxes {
		b, room := &s.boxes[i], 0.0
		for d, n := range s.bins[b.bin].free {
			room += s.scale[d] * float64(n-b.sum[d])
		}
		if len(rooms) == roomyBoxes && room <= rooms[roomyBoxes-1] {
			continue
		}
		at := sort.Search(len(rooms), func(j int) bool { return rooms[j] < room })
		rooms, s.roomy = slices.Insert(rooms, at, room), slices.Insert(s.roomy, at, i)
		rooms, s.roomy = rooms[:min(len(rooms), roomyBoxes)], s.roomy[:min(len(s.roomy), roomyBoxes)]
	}
	s.work.add(len(s.boxes))
}
