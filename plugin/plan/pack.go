package plan

import "slices"

// What packing may cost: rounds of column generation, and steps of local search. Budgets count work, not time, so that
// the same input gives the same plan.
const (
	packRounds   = 40
	packWork     = 400_000
	improveWork  = 150_000
	leastRounds  = 3
	roundsPerRun = 6
)

// packing is the result for the pools of one weight.
type packing struct {
	problem  *problem
	best     solution
	bound    float64
	firstFit float64
}

// pack solves for the pools of one weight and books what it uses on their limits.
func (m *model) pack(units []unit, weight int32) packing {
	p := m.newProblem(slices.Clone(units), weight)
	ff := p.firstFit()
	pk := packing{problem: p, best: ff, firstFit: p.cost(ff.nodes)}
	k := newPacker(p)
	if len(k.lanes) > 0 {
		counts := p.counts()
		pi, columns, levels := k.values(counts, k.rounds())
		for _, s := range k.solutions(ff, k.raised(pi), columns, levels) {
			if p.better(s, pk.best) {
				pk.best = s
			}
		}
		if p.plain() && p.pods(pk.best.left) == 0 {
			pk.bound = k.lowerBound(counts, pi, p.cost(pk.best.nodes))
		} else {
			pk.bound = m.freeBound(p, pk.best)
		}
	}
	m.book(pk.best.nodes, 1)
	return pk
}

// raised gives units that the best mix runs for nothing, in the slack of others, a small price: they have to be placed.
func (k *packer) raised(pi []float64) []float64 {
	out := k.prices()
	for ui := range out {
		out[ui] = max(pi[ui], out[ui]/100)
	}
	return out
}

// solutions are the candidates: the prices used node by node, the covering program rounded, and first-fit, each improved.
func (k *packer) solutions(ff solution, pi []float64, columns []column, levels []float64) []solution {
	var out []solution
	start := solution{}
	start.nodes, start.left = k.compose(k.p.counts(), pi, k.p.cloneRoom())
	out = append(out, k.improve(start, pi, improveWork))
	out = append(out, k.improve(k.round(columns, levels, pi), pi, improveWork))
	ff.nodes = slices.Clone(ff.nodes)
	return append(out, k.improve(ff, pi, improveWork))
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

// rounds is how many rounds of column generation the budget allows.
func (k *packer) rounds() int {
	perRound := roundsPerRun
	for li := range k.lanes {
		perRound += roundsPerRun * len(k.lanes[li].units)
	}
	return max(min(packRounds, packWork/perRound), leastRounds)
}

// round takes the whole part of the fractional solution, and composes the rest.
func (k *packer) round(columns []column, levels []float64, pi []float64) solution {
	left, room := k.p.counts(), k.p.cloneRoom()
	var s solution
	for i, c := range columns {
		if c.lane < 0 {
			continue
		}
		pat := pattern{lane: c.lane, items: c.items}
		n := k.affordable(&k.lanes[c.lane], min(int(levels[i]+1e-6), k.copies(pat, left)), room)
		for range n {
			s.nodes = append(s.nodes, k.node(pat))
		}
		for _, it := range c.items {
			left[it.unit] -= n * it.n
		}
		k.p.spend(k.lanes[c.lane].offer, n, room)
	}
	rest, left := k.compose(left, pi, room)
	s.nodes, s.left = append(s.nodes, rest...), left
	return s
}

// freeBound is the lower bound for the placed pods without the choice of domains and of companions: each of those only
// adds to the bill.
func (m *model) freeBound(p *problem, s solution) float64 {
	placed := make([]int, len(m.classes))
	for ui, left := range s.left {
		for _, q := range p.units[ui].parts {
			placed[q.class] += (p.units[ui].count - left) * q.n
		}
	}
	var units []unit
	for ci, n := range placed {
		if n > 0 {
			units = append(units, m.newUnit([]part{{ci, 1}}, n))
		}
	}
	if len(units) == 0 {
		return 0
	}
	k := newPacker(m.newProblem(units, p.weight))
	counts := k.p.counts()
	pi, _, _ := k.values(counts, k.rounds())
	return k.lowerBound(counts, pi, p.cost(s.nodes))
}

// lowerBound is what the units cost at the very least.
func (k *packer) lowerBound(counts []int, pi []float64, cost float64) float64 {
	best := max(k.bound(counts, pi), k.bound(counts, k.prices()))
	// At least one node that takes the pod that is hardest to please.
	for ui := range counts {
		least := -1.0
		for li := range k.lanes {
			if l := &k.lanes[li]; l.takes.has(ui) && (least < 0 || l.price < least) {
				least = l.price
			}
		}
		best = max(best, least)
	}
	if best > cost && best < cost*(1+1e-9) {
		return cost // Equal but for rounding.
	}
	return best
}
