package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
)

// Make plans the pods of the input: first onto the rooms of its nodes, then onto new ones of the NodePools, those of
// higher weight first, for as few USD per hour as it finds. Pods that go nowhere are listed with the reasons.
//
// The steps: (1) compile the input to integers; (2) fill the rooms; (3) give each pod that is left the zone, or other
// domain, that spread and affinity ask for; (4) per weight, pack the pods onto offers; (5) write the claims; (6) say why
// for what is left.
func Make(in Input) Plan {
	if in.NewName == nil {
		in.NewName = numberedNames()
	}
	m := compile(in)                    // 1
	left := make([]int, len(m.classes)) // pods not placed yet, by class
	next := make([]int, len(m.classes)) // pods named in the plan, by class
	for ci := range m.classes {
		left[ci] = len(m.classes[ci].refs)
	}
	var out Plan
	out.Placements = m.placements(m.fillRooms(left), next) // 2
	units := m.units(left)                                 // 3
	var packed []packing
	for _, weight := range m.weights() { // 4
		pk := m.pack(units, weight)
		packed = append(packed, pk)
		for ui := range units {
			units[ui].count = pk.best.left[ui]
		}
		out.LowerBoundPerHour += pk.bound
		out.FirstFitPerHour += pk.firstFit
	}
	for _, pk := range packed { // 5
		out.Claims = append(out.Claims, m.claims(pk, next)...)
		out.CostPerHour += pk.problem.cost(pk.best.nodes)
	}
	out.Unplaced = m.unplaced(next) // 6
	return out
}

// weights are those of the pools, highest first.
func (m *model) weights() []int32 {
	var out []int32
	for _, p := range m.pools {
		if !slices.Contains(out, p.Weight) {
			out = append(out, p.Weight)
		}
	}
	slices.SortFunc(out, func(a, b int32) int { return cmp.Compare(b, a) })
	return out
}

// book adds the nodes to the usage of their pools.
func (m *model) book(nodes []node) {
	for _, n := range nodes {
		o := &m.offers[n.offer]
		limits := m.pools[o.pool].limits
		for i, used := range m.types[o.shape].usage {
			limits[i].used += used
		}
	}
}

// withinLimits says that the limits have room for a node of the offer.
func (m *model) withinLimits(oi int) bool {
	o := &m.offers[oi]
	for i, used := range m.types[o.shape].usage {
		if l := m.pools[o.pool].limits[i]; l.used+used > l.max {
			return false
		}
	}
	return true
}

func numberedNames() func(string) string {
	n := 0
	return func(pool string) string {
		n++
		return fmt.Sprintf("%s-%d", pool, n)
	}
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
