package plan

import (
	"context"
	"slices"

	"github.com/slipway-k8s/slipway/plugin/plan/binpack"
	"github.com/slipway-k8s/slipway/plugin/plan/relations"
)

// provenShare is what may be open between a plan and the bound that was proven on the way, to leave it at that.
const provenShare = 1e-5

// prove is what was learned from the packing, by class.
func (m *model) prove(pk *packing) proof {
	p := pk.problem
	out := proof{weight: p.weight, values: make([]float64, len(m.classes)), pods: make([]int, len(m.classes)), bound: pk.bound}
	worth, of := make([]float64, len(m.classes)), make([]int, len(m.classes))
	for ki, units := range p.of {
		for _, ui := range units {
			u := &p.units[ui]
			for _, q := range u.parts {
				out.pods[q.Class] += u.count * q.N
				if pk.values != nil && len(u.parts) == 1 {
					worth[q.Class] += float64(u.count) * pk.values[ki]
					of[q.Class] += u.count * q.N
				}
			}
		}
	}
	for ci, n := range of {
		if n > 0 {
			out.values[ci] = worth[ci] / float64(n)
		}
	}
	return out
}

// LowerBound is what no set of nodes can cost less than for the pods that the plan of the input has new nodes for, in USD per
// hour, with the choice of domains and of leaders left out: those only add to the bill. A spread over hosts limits the pods of a
// node where one more could be launched whatever the limits of NodePools have room for. Finding it may take as long as the plan did,
// which does not depend on it.
func LowerBound(ctx context.Context, in Input, p *Plan) float64 {
	in.budget = in.Options.budget(ctx)
	var was []int
	in.Classes, was = Ordered(in.Classes)
	at := make([]int, len(was))
	for i, w := range was {
		at[w] = i
	}
	m := compile(in, nil, newLessons())
	relaxed := newRelaxation(m).relax(p)
	sum := 0.0
	for _, weight := range m.market.weights() {
		pods, prices := make([]int, len(in.Classes)), []float64(nil)
		for i := range p.Claims {
			c := &p.Claims[i]
			if in.Catalog.NodePools[c.NodePool].Weight != weight {
				continue
			}
			prices = append(prices, c.Expected.Price)
			for _, x := range c.Members {
				pods[at[x.Class]] += len(x.Pods)
			}
		}
		known := p.proofOf(weight)
		if relaxed {
			known.pods, known.bound = nil, 0
		}
		sum += m.lowerBound(pods, sorted(prices), known)
	}
	return sum
}

func (p *Plan) proofOf(weight int32) proof {
	for _, x := range p.proofs {
		if x.weight == weight {
			return x
		}
	}
	return proof{weight: weight}
}

// lowerBound is that of the pods on nodes of one weight, which cost so much in the plan. The values at which they were packed
// are where the search starts.
func (m *model) lowerBound(pods []int, cost float64, known proof) float64 {
	proven := 0.0
	if slices.Equal(pods, known.pods) {
		proven = known.bound
	}
	if proven >= cost*(1-provenShare) {
		return proven
	}
	var units []unit
	for ci, n := range pods {
		if n > 0 {
			units = append(units, m.placer.newUnit([]relations.Part{{Class: ci, N: 1}}, n))
		}
	}
	if len(units) == 0 {
		return 0
	}
	p := m.newProblem(units, known.weight, newBins(&m.market, true, nil, nil))
	start := binpack.Known{Bound: proven, Cost: cost}
	if known.values != nil {
		start.Values = make([]float64, len(p.of))
		for i, of := range p.of {
			for _, ui := range of {
				u := &units[ui]
				start.Values[i] += float64(u.count) * known.values[u.parts[0].Class] / float64(p.packing.Items[i].Count)
			}
		}
	}
	return binpack.LowerBound(&p.packing, start, m.in.budget)
}
