package plan

import (
	"cmp"
	"slices"
	"strings"
)

// Ordered sorts the classes by key, so that the plan does not depend on the order in which pods came, and returns where
// each was. Pods of one class stay in their order: they are alike.
func Ordered(classes []Class) ([]Class, []int) {
	was := make([]int, len(classes))
	for i := range was {
		was[i] = i
	}
	slices.SortStableFunc(was, func(a, b int) int { return strings.Compare(classes[a].Key, classes[b].Key) })
	out := make([]Class, len(classes))
	for i, w := range was {
		out[i] = classes[w]
	}
	return out, was
}

// Restore writes the plan of ordered classes in terms of the classes as they were.
func (p *Plan) Restore(was []int) {
	members := func(list []Member) []Member {
		out := slices.Clone(list)
		for i := range out {
			out[i].Class = was[out[i].Class]
		}
		slices.SortStableFunc(out, func(a, b Member) int { return cmp.Compare(a.Class, b.Class) })
		return out
	}
	for i := range p.Claims {
		p.Claims[i].Members = members(p.Claims[i].Members)
	}
	for i := range p.Placements {
		p.Placements[i].Members = members(p.Placements[i].Members)
	}
	for i := range p.Unplaced {
		p.Unplaced[i].Class = was[p.Unplaced[i].Class]
	}
	slices.SortStableFunc(p.Unplaced, func(a, b Unplaced) int { return cmp.Compare(a.Class, b.Class) })
	for i := range p.Ignored {
		p.Ignored[i].Class = was[p.Ignored[i].Class]
	}
	slices.SortStableFunc(p.Ignored, func(a, b IgnoredPreference) int { return cmp.Compare(a.Class, b.Class) })
}
