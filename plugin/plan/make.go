package plan

import (
	"fmt"
	"slices"
)

// once plans up to most pods of each class, held to the wanted preferences: first onto the rooms of the input's nodes,
// then onto new ones of the NodePools, those of higher weight first, for as few USD per hour as it finds. Pods that go
// nowhere are listed with the reasons. It lowers most where fewer pods had to be planned.
//
// The steps: (1) compile the input to integers; (2) fill the rooms; (3) give each pod that is left the zone, or other
// domain, that spread and affinity ask for; (4) per weight, pack the pods onto offers and (5) write the claims; (6) if
// pods that found no node leave the others badly spread or a gang incomplete, plan again with fewer; (7) say why for what
// is left. Where the context ends before that, nothing is placed.
func once(in Input, w wants, most []int) Plan {
	learned := newLessons()
	// From maxTries on, each try takes all pods of a class at least off most.
	for try := range maxTries + len(in.Classes) + 1 {
		m := compile(in, w, learned)
		if in.budget.Cancelled() {
			break
		}
		if out, settled := m.plan(most, try >= maxTries); settled {
			return out
		}
		// Again, with what plan took off most.
	}
	return nothing(in)
}

// maxTries is how often a plan is made again with fewer pods before all classes that stay badly spread and all gangs that stay incomplete
// are left out.
const maxTries = 6

// OutOfTime returns the reason of pods that have no node since the context of the plan ended before something was done for them.
func OutOfTime(before string) Reason {
	return Reason{Code: "PlanningCutShort", Message: "planning ran out of time before " + before + "; it is planned again with the next batch"}
}

// nothing is the plan that places no pod.
func nothing(in Input) Plan {
	var out Plan
	for ci := range in.Classes {
		if pods := in.Classes[ci].Pods; len(pods) > 0 {
			out.Unplaced = append(out.Unplaced, Unplaced{
				Class: ci, Pods: slices.Clone(pods), Reasons: []Reason{OutOfTime("the pod had its turn")},
			})
		}
	}
	return out
}

// plan is one try at most pods of each class. Where pods that found no node leave others without what they require, it
// takes pods off most, all of those classes if last, and returns false.
func (m *model) plan(most []int, last bool) (Plan, bool) {
	left := slices.Clone(most)          // pods not placed yet, by class
	next := make([]int, len(m.classes)) // pods named in the plan, by class
	var out Plan
	filler := newRoomFiller(m)
	out.Placements = filler.placements(filler.fillRooms(left), next) // 2
	units := m.units(left)                                           // 3
	if m.in.budget.Cancelled() {
		return nothing(m.in), true
	}
	for _, weight := range m.market.weights() { // 4
		pk := m.packRationed(units, weight)
		out.Claims = append(out.Claims, m.claims(&pk, next)...) // 5
		for ui := range units {
			units[ui].count = pk.best.left[ui]
		}
		cost := pk.problem.cost(pk.best.nodes)
		out.CostPerHour += cost
		if !m.in.sketch {
			out.proofs = append(out.proofs, m.prove(&pk))
		}
		if pk.crowded {
			pk.firstFit = cost
		}
		out.FirstFitPerHour += pk.firstFit
	}
	if m.again && !last || !m.keepsRules(units, next, most, last) || !m.gangRules.gangsStand(next, most, last) { // 6
		return Plan{}, false
	}
	out.Unplaced = m.explainer.unplaced(next) // 7
	out.PlainCostPerHour, out.oversized = out.CostPerHour, m.fitter.oversized
	return out, true
}

// keepsRules takes the units that found no node out of the counts, and reports whether the pods that have one still keep their rules. If
// not, most is lowered (Relations.Settle).
func (m *model) keepsRules(units []unit, placed, most []int, last bool) bool {
	lost := false
	for i := range units {
		if u := &units[i]; u.count > 0 {
			m.relations.RecordParts(u.parts, -u.count, u.domain)
			lost = true
		}
	}
	return !lost || m.relations.Settle(placed, most, last)
}

// book adds the nodes to the usage of their pools, times times.
func (mk *market) book(nodes []node, times int64) {
	for _, n := range nodes {
		o := &mk.offers[n.offer]
		limits := mk.pools[o.pool].limits
		for i, used := range usageOf(mk, n.offer) {
			limits[i].used += times * used
		}
	}
}

// nameClaims gives each claim without one a name that no other has. A name function that repeats itself gets a number behind its answer.
func (p *Plan) nameClaims(name func(string) string) {
	if name == nil {
		name = numberedNames()
	}
	taken := map[string]bool{"": true}
	for i := range p.Claims {
		taken[p.Claims[i].Name] = true
	}
	for i := range p.Claims {
		c := &p.Claims[i]
		if c.Name != "" {
			continue
		}
		fresh := name(c.NodePool)
		for n := 2; taken[fresh]; n++ {
			fresh = fmt.Sprintf("%s-%d", name(c.NodePool), n)
		}
		c.Name = fresh
		taken[fresh] = true
	}
}

func numberedNames() func(string) string {
	n := 0
	return func(pool string) string {
		n++
		return fmt.Sprintf("%s-%d", pool, n)
	}
}
