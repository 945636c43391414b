package binpack

import (
	"cmp"
	"slices"
)

// What fewer boxes may cost: a packing that costs this share more is as good if it has fewer boxes.
const (
	asGood        = 0.003
	mergePartners = 10
	// mergeMost is how many boxes become one at a time.
	mergeMost = 8
)

// merge puts the content of two boxes into one, again and again, the cheapest boxes first, where that costs no more, or
// so little more that all of it together is as good. Sizes may be missing between a small bin type and a large one:
// several boxes that are next to each other by price are tried as well. Each round but the last has one box fewer, so
// that it ends.
func (s *search) merge() {
	budget := s.p.bill(s.boxes) * asGood * 0.8
	for again := true; again && !s.work.spent(); {
		again = false
		slices.SortStableFunc(s.boxes, func(a, b box) int {
			return cmp.Or(cmp.Compare(s.prices[a.bin], s.prices[b.bin]), cmp.Compare(a.bin, b.bin), slices.CompareFunc(a.items, b.items, compareItems))
		})
		for i := range s.boxes {
			if s.boxes[i].items == nil || i > 0 && s.same(i, i-1) {
				continue
			}
			if extra, ok := s.joinSeveral(i, budget); ok {
				budget -= max(extra, 0)
				again = true
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

// same reports whether two boxes are alike, and neither is merged yet.
func (s *search) same(i, j int) bool {
	a, b := &s.boxes[i], &s.boxes[j]
	return a.bin == b.bin && a.items != nil && b.items != nil && slices.Equal(a.items, b.items)
}

// join puts the content of two boxes into one, if that costs no more than a part of the budget.
func (s *search) join(i, j int, budget float64) (float64, bool) {
	return s.joinAll([]int{i, j}, budget)
}

// joinSeveral puts the content of as many boxes as it can, from the i-th on, into one.
func (s *search) joinSeveral(i int, budget float64) (float64, bool) {
	var all []int
	for j := i; j < len(s.boxes) && len(all) < mergeMost; j++ {
		if s.boxes[j].items != nil {
			all = append(all, j)
		}
	}
	for n := len(all); n > 2; n-- {
		if extra, ok := s.joinAll(all[:n], budget); ok {
			return extra, true
		}
	}
	return 0, false
}

// joinAll puts the content of the boxes into the last of them.
func (s *search) joinAll(all []int, budget float64) (float64, bool) {
	first := &s.boxes[all[0]]
	items, sum, price := slices.Clone(first.items), first.sum.clone(), s.prices[first.bin]
	for _, j := range all[1:] {
		b := &s.boxes[j]
		sum.add(b.sum, 1)
		price += s.prices[b.bin]
		for _, it := range b.items {
			if !s.types[it.Type].free() && s.p.more(items, it.Type, s.bins[first.bin].pool) < it.N {
				return 0, false
			}
			items = addTo(items, it)
		}
	}
	for _, j := range all {
		s.p.spend(&s.bins[s.boxes[j].bin], -1, s.room)
	}
	bi := s.cheapest(items, sum, price+min(budget, price*asGood)+1e-12, s.room)
	if bi < 0 {
		for _, j := range all {
			s.p.spend(&s.bins[s.boxes[j].bin], 1, s.room)
		}
		return 0, false
	}
	s.p.spend(&s.bins[bi], 1, s.room)
	for _, j := range all {
		s.boxes[j].items = nil
	}
	s.boxes[all[len(all)-1]] = box{bin: bi, items: items, sum: sum}
	return s.prices[bi] - price, true
}
