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
// hour, with preferences and the choice of leaders left out: those only add to the bill. Of the choice of domains it knows how many pods of a class
// have to be in each zone that they spread over. A spread over hosts limits the pods of a node where one more could be launched whatever the limits
// of NodePools have room for. Finding it may take as long as the plan did, which does not depend on it; Options.Budget above 1 looks that much longer.
func LowerBound(ctx context.Context, in Input, p *Plan) float64 { return lowerBound(ctx, in, nil, p) }

// LowerBoundOfKept is what no set of nodes can cost less than that keeps the preferences which the plan keeps, in USD per hour: LowerBound as if
// these were required.
func LowerBoundOfKept(ctx context.Context, in Input, p *Plan) float64 {
	if len(p.kept) == 0 {
		return LowerBound(ctx, in, p)
	}
	ordered := in
	ordered.Classes, _ = Ordered(in.Classes)
	return lowerBound(ctx, in, compile(ordered, nil, newLessons()).keptWants(p.kept), p)
}

func lowerBound(ctx context.Context, in Input, w wants, p *Plan) float64 {
	in.budget = in.Options.budget(ctx)
	var was []int
	in.Classes, was = Ordered(in.Classes)
	at := make([]int, len(was))
	for i, w := range was {
		at[w] = i
	}
	m := compile(in, w, newLessons())
	rx := newRelaxation(m)
	relaxed, spread := rx.relax(p), rx.spreads(p)
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
		if !slices.Equal(pods, known.pods) {
			known.bound = 0
		}
		sum += m.lowerBound(m.boundUnits(pods, spread), sorted(prices), known)
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

// lowerBound is that of the units on nodes of one weight, which cost so much in the plan. The values at which they were packed
// are where the search starts.
func (m *model) lowerBound(units []unit, cost float64, known proof) float64 {
	if known.bound >= cost*(1-provenShare) || len(units) == 0 {
		return known.bound
	}
	p := m.newProblem(units, known.weight, newBins(&m.market, true, nil, nil))
	start := binpack.Known{Bound: known.bound, Cost: cost, Effort: m.in.Options.Budget}
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

// boundUnits returns a unit of single pods for each class that has pods, and for each domain that some of them have to be in.
func (m *model) boundUnits(pods []int, spread map[int]evenSpread) []unit {
	var out []unit
	for ci, n := range pods {
		if n == 0 {
			continue
		}
		rest := m.placer.newUnit([]relations.Part{{Class: ci, N: 1}}, n)
		if s, ok := spread[ci]; ok && n == len(m.classes[ci].refs) {
			for _, v := range s.domains {
				out = append(out, m.placer.pin(&rest, []string{s.key}, map[string]string{s.key: v}, s.least))
			}
			rest.count -= s.least * len(s.domains)
		}
		if rest.count > 0 {
			out = append(out, rest)
		}
	}
	return out
}
