package binpack

import (
	"cmp"
	"math"
	"slices"
)

// payingLanes is how many lanes with columns that pay are enough for one round: at the next one's prices, the others' may pay no more.
const payingLanes = 12

// seek adds columns of lanes that have some that pay, those first that seem to hold the most for a dollar, and proves a bound.
func (s *seeker) seek() {
	s.follow(s.trust)
	s.found = false
	paying := 0
	for _, li := range s.hopes() {
		before, relaxed := len(s.pool()), s.ratio[li]
		s.ratio[li], s.exact[li] = s.deepen(li, gridLimit, relaxed*charged(s.lanes[li].price))
		s.loose[li] = s.ratio[li] / relaxed
		if len(s.pool()) > before {
			paying++
		}
		if paying == payingLanes {
			break
		}
	}
	s.note()
	switch {
	case s.enough():
		s.done = true
	case s.found:
		s.trust = min(s.trust, steadyTrust)
	case s.trust < 1:
		s.trust = min(s.trust+trustStep, 1)
	default:
		s.done = true
	}
}

// hopes are the lanes that may hold more than they cost, those first that seem to hold the most for a dollar. A lane whose last
// bound suffices even if all kinds had become dearer by as much as any did is not looked at.
func (s *seeker) hopes() []int {
	dearer := s.dearest()
	s.was = append(s.was[:0], s.at...)
	var out []int
	for li := range s.lanes {
		if upper := s.ratio[li] * dearer; upper > 0 && upper <= 1 {
			s.ratio[li] = upper
			continue
		}
		if s.ratio[li], s.exact[li] = s.relax(li); !s.exact[li] {
			out = append(out, li)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(s.ratio[b]*s.loose[b], s.ratio[a]*s.loose[a]) })
	return out
}

// dearest is how many times as dear the kind has become that did most since the ratios were found.
func (s *seeker) dearest() float64 {
	if s.was == nil {
		return math.Inf(1)
	}
	out := 0.0
	for _, ki := range s.all {
		switch {
		case s.at[ki] <= 0:
		case s.was[ki] <= 0:
			return math.Inf(1)
		default:
			out = max(out, s.at[ki]/s.was[ki])
		}
	}
	return out
}

// look looks for columns of the lane that pay. It returns an upper bound of what a node of it holds for a dollar, and
// whether it looked as hard as it can.
func (s *seeker) look(li, limit int) (float64, bool) {
	ratio, none := s.relax(li)
	if none {
		return ratio, true
	}
	return s.deepen(li, limit, ratio*charged(s.lanes[li].price))
}

// relax is an upper bound of what a node of the lane holds for a dollar, from a relaxation, and whether that rules out that any column
// pays.
func (s *seeker) relax(li int) (float64, bool) {
	price := s.lanes[li].price
	s.moves = 3
	most := s.most(li, s.all, s.counts, s.at, price)
	if most > price {
		s.moves = 12
		most = s.most(li, s.all, s.counts, s.at, price)
	}
	return perDollar(most, price), most <= price
}

// deepen is look for a lane whose node holds no more than most.
func (s *seeker) deepen(li, limit int, most float64) (float64, bool) {
	price := s.lanes[li].price
	limit = min(limit, smallGrid+(s.work-s.from)*gridSpeed/4)
	if s.m == nil { // For the bound alone.
		if tight, ok := s.onThinGrid(li, s.wares(li, s.all, s.counts, s.at, s.weights(li)), price); ok {
			if most = min(most, tight); most <= price {
				return perDollar(most, price), true
			}
		}
	}
	add := func(items []Item) { s.add(li, items) }
	upper, ok := s.onGrid(li, s.wares(li, s.all, s.counts, s.at, s.weights(li)), price, min(limit, smallGrid), add)
	if !ok && limit > smallGrid {
		before := len(s.pool())
		if limit <= gridLimit {
			s.hasty = true
			add(s.best(li, s.all, s.counts, s.at, price).items)
			s.hasty = false
		}
		if len(s.pool()) == before {
			upper, ok = s.onGrid(li, s.wares(li, s.all, s.counts, s.at, s.weights(li)), price, limit, add)
		}
	}
	return perDollar(min(most, upper), price), ok
}
