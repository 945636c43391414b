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
		for _, s := range k.solutions(ff) {
			if p.better(s, pk.best) {
				pk.best = s
			}
		}
		pk.bound = m.lowerBound(p, pk.best)
	}
	m.book(pk.best.nodes)
	return pk
}

// solutions are the candidates: the covering program rounded, its prices used node by node, and first-fit, each improved.
func (k *packer) solutions(ff solution) []solution {
	counts := k.p.counts()
	pi, columns, levels := k.values(counts, k.rounds())
	first := k.prices()
	for ui := range pi {
		pi[ui] = max(pi[ui], first[ui]/100)
	}
	var out []solution
	start := solution{}
	start.nodes, start.left = k.compose(counts, pi, k.p.cloneRoom())
	out = append(out, k.improve(start, pi, improveWork))
	out = append(out, k.improve(k.round(columns, levels, pi), pi, improveWork))
	ff.nodes = slices.Clone(ff.nodes)
	return append(out, k.improve(ff, pi, improveWork))
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

// lowerBound is what the placed pods cost at the very least on offers of these pools: without the choice of domains and
// of companions, each of which only adds to the bill.
func (m *model) lowerBound(p *problem, s solution) float64 {
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
	free := m.newProblem(units, p.weight)
	k := newPacker(free)
	counts := free.counts()
	pi, _, _ := k.values(counts, k.rounds())
	best := max(k.bound(counts, pi), k.bound(counts, k.prices()))
	// At least one node that takes the pod that is hardest to please.
	for ui := range units {
		least := -1.0
		for li := range k.lanes {
			if l := &k.lanes[li]; l.takes.has(ui) && (least < 0 || l.price < least) {
				least = l.price
			}
		}
		best = max(best, least)
	}
	if cost := p.cost(s.nodes); best > cost && best < cost*(1+1e-9) {
		return cost // Equal but for rounding.
	}
	return best
}
