package verify

import (
	"cmp"
	"slices"
	"strings"

	"github.com/slipway-k8s/slipway/plugin/plan"
)

// ordered sorts the classes by key, so that the plan does not depend on the order in which pods came, and returns where
// each was.
func ordered(classes []plan.Class) ([]plan.Class, []int) {
	was := make([]int, len(classes))
	for i := range was {
		was[i] = i
	}
	slices.SortStableFunc(was, func(a, b int) int { return strings.Compare(classes[a].Key, classes[b].Key) })
	out := make([]plan.Class, len(classes))
	for i, w := range was {
		out[i] = classes[w]
	}
	return out, was
}

// restore writes the plan in terms of the classes as they were.
func restore(p *plan.Plan, was []int) {
	members := func(list []plan.Member) []plan.Member {
		out := slices.Clone(list)
		for i := range out {
			out[i].Class = was[out[i].Class]
		}
		slices.SortStableFunc(out, func(a, b plan.Member) int { return cmp.Compare(a.Class, b.Class) })
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
	slices.SortStableFunc(p.Unplaced, func(a, b plan.Unplaced) int { return cmp.Compare(a.Class, b.Class) })
	for i := range p.Ignored {
		p.Ignored[i].Class = was[p.Ignored[i].Class]
	}
	slices.SortStableFunc(p.Ignored, func(a, b plan.IgnoredPreference) int { return cmp.Compare(a.Class, b.Class) })
}
