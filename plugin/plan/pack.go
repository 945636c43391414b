package plan

import (
	"slices"

	"github.com/slipway-k8s/slipway/plugin/plan/binpack"
	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
	"github.com/slipway-k8s/slipway/plugin/plan/relations"
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

// needOf returns what the units need together.
func needOf(units []unit, dims int) vec {
	out := make(vec, dims)
	for i := range units {
		out.add(units[i].need, int64(units[i].count))
	}
	return out
}

// pack solves for the pools of one weight and books what it uses on their limits.
func (m *model) pack(units []unit, weight int32) packing {
	if m.bins.list == nil {
		m.bins = newBins(&m.market, false, needOf(units, len(m.dims)), units)
	}
	p := m.newProblem(slices.Clone(units), weight, m.bins)
	found := binpack.Solve(&p.packing, binpack.Options{
		Efforts: m.in.Options.efforts(m.in.sketch), Sketch: m.in.sketch, Bound: !m.in.sketch && p.plain(), Budget: m.in.budget,
	})
	pk := packing{problem: p, best: p.split(found.Boxes), firstFit: found.FirstFit, values: found.Values, bound: found.Bound}
	if len(m.bins.partial) > 0 || m.bins.lossy {
		pk.bound = 0 // A burstable node, or a spot node with few pods, may cost less than its bin.
	}
	if m.spotSpread.leaveMetal(p, pk.best.nodes) {
		pk.firstFit = max(pk.firstFit, p.cost(pk.best.nodes)) // First-fit knows no such rule.
	}
	m.spotSpread.diversify(p, pk.best.nodes)
	m.market.book(pk.best.nodes, 1)
	return pk
}

// plain says that each unit is a pod that may go into any domain.
func (p *problem) plain() bool {
	for ui := range p.units {
		if u := &p.units[ui]; u.domain != nil || len(u.parts) > 1 || u.parts[0].N > 1 {
			return false
		}
	}
	return true
}

// units turns what is left of the classes into units, each with its domain. What can have none stays out.
func (m *model) units(left []int) []unit {
	m.placer.memo = domainMemo{places: map[string]places{}, inside: map[string]bitset.Set{}, joining: newJoining(m.relations)}
	defer func() { m.placer.memo = domainMemo{} }()
	m.market.moreValues = map[string]int{}
	rest := slices.Clone(left)
	todo := m.colocation.bundles(rest)
	for _, ci := range newRoomFiller(m).order() {
		if rest[ci] > 0 {
			todo = append(todo, m.placer.newUnit([]relations.Part{{Class: ci, N: 1}}, rest[ci]))
		}
	}
	m.placer.byFreedom(todo)
	var out []unit
	// Pods that follow others by affinity may have to wait until those have their domains. Each round gives a domain to one pod
	// at least, but for the last one before the last resort, and the last of all.
	for pass, progress, resorted := 0, true, false; progress && pass < maxPasses; pass++ {
		progress = false
		for i := range todo {
			if todo[i].count == 0 {
				continue
			}
			if m.in.budget.Cancelled() {
				return out
			}
			placed := m.placer.assign(&todo[i])
			progress = progress || len(placed) > 0
			for _, u := range placed {
				u.fits, _ = m.market.probation.spared(u.fits)
				out = append(out, u)
			}
		}
		if progress || resorted {
			continue
		}
		resorted = true
		for i := range todo {
			if todo[i].count > 0 && todo[i].last != nil {
				todo[i].fits, progress = todo[i].last, true
			}
		}
	}
	return out
}
