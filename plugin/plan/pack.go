package plan

import (
	"slices"

	"github.com/slipway-k8s/slipway/plugin/plan/binpack"
)

// packing is the result for the pools of one weight.
type packing struct {
	problem *problem
	best    solution
	// bound is what packing proved that no nodes for all units cost less than; 0 for nothing.
	bound    float64
	firstFit float64
	// crowded says that pods were left out for which first-fit counted a node.
	crowded bool
	// values are what packing took the item types of the problem to be worth; nil for unknown.
	values []float64
}

// pack solves for the pools of one weight and books what it uses on their limits.
func (m *model) pack(units []unit, weight int32) packing {
	p := m.newProblem(slices.Clone(units), weight)
	found := binpack.Solve(&p.packing, binpack.Options{
		Efforts: m.in.Options.efforts(m.in.sketch), Sketch: m.in.sketch, Bound: !m.in.sketch && p.plain(), Budget: m.in.budget,
	})
	pk := packing{problem: p, best: p.split(found.Boxes), firstFit: found.FirstFit, values: found.Values, bound: found.Bound}
	m.diversify(p, pk.best.nodes)
	m.market.book(pk.best.nodes, 1)
	return pk
}

// plain says that each unit is a pod that may go into any domain.
func (p *problem) plain() bool {
	for ui := range p.units {
		if u := &p.units[ui]; u.domain != nil || len(u.parts) > 1 || u.parts[0].n > 1 {
			return false
		}
	}
	return true
}
