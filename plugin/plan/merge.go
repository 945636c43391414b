package plan

import (
	"cmp"
	"slices"
)

// What fewer nodes may cost: a plan that costs this share more is as good if it has fewer nodes.
const (
	asGood        = 0.003
	mergePartners = 10
)

// merge puts the content of two boxes into one, again and again, the cheapest boxes first, where that costs no more, or
// so little more that all of it together is as good.
func (s *search) merge() {
	budget := s.bill(s.boxes) * asGood * 0.8
	for again := true; again; {
		again = false
		slices.SortStableFunc(s.boxes, func(a, b box) int {
			return cmp.Or(cmp.Compare(s.prices[a.lane], s.prices[b.lane]), cmp.Compare(a.lane, b.lane), slices.CompareFunc(a.items, b.items, compareItems))
		})
		for i := range s.boxes {
			if s.boxes[i].items == nil || i > 0 && s.same(i, i-1) {
				continue
			}
			partners := 0
			for j := i + 1; j < len(s.boxes) && partners < mergePartners; j++ {
				if s.boxes[j].items == nil || j > i+1 && s.same(j, j-1) {
					continue
				}
				partners++
				if extra, ok := s.join(i, j, budget); ok {
					budget -= max(extra, 0)
					again = true
					break
				}
			}
		}
		s.boxes = slices.DeleteFunc(s.boxes, func(b box) bool { return b.items == nil })
	}
}

// same says that two boxes are alike, both not taken.
func (s *search) same(i, j int) bool {
	a, b := &s.boxes[i], &s.boxes[j]
	return a.lane == b.lane && a.items != nil && b.items != nil && slices.Equal(a.items, b.items)
}

// join puts the content of two boxes into one, if that costs no more than a part of the budget.
func (s *search) join(i, j int, budget float64) (float64, bool) {
	a, b := &s.boxes[i], &s.boxes[j]
	sum := a.sum.clone()
	sum.add(b.sum, 1)
	price := s.prices[a.lane] + s.prices[b.lane]
	items := a.items
	for _, it := range b.items {
		if !s.kinds[it.unit].free() && s.p.more(items, it.unit, s.lanes[a.lane].pool) < it.n {
			return 0, false
		}
		items = addItem(items, it)
	}
	s.p.spend(&s.lanes[a.lane], -1, s.room)
	s.p.spend(&s.lanes[b.lane], -1, s.room)
	li := s.cheapest(items, sum, price+min(budget, price*asGood)+1e-12, s.room)
	if li < 0 {
		s.p.spend(&s.lanes[a.lane], 1, s.room)
		s.p.spend(&s.lanes[b.lane], 1, s.room)
		return 0, false
	}
	s.p.spend(&s.lanes[li], 1, s.room)
	s.boxes[i].items = nil
	s.boxes[j] = box{lane: li, items: items, sum: sum}
	return s.prices[li] - price, true
}

// addItem returns a new list with the item added.
func addItem(items []item, it item) []item {
	return addTo(slices.Clone(items), it)
}
