package plan

import (
	"math"
	"slices"

	"github.com/slipway-k8s/slipway/plugin/plan/relations"
)

// spending is what a plan costs without preferences, in USD per hour, and how much more the preferences of each class may cost: a share of
// what its own pods cost.
type spending struct {
	plain float64
	more  []float64
}

// newSpending divides the bill of the plan among the classes, that of a node by the parts of it that their pods take.
func newSpending(m *model, p *Plan, part float64) spending {
	out := spending{plain: p.CostPerHour, more: make([]float64, len(m.classes))}
	for i := range p.Claims {
		c := &p.Claims[i]
		parts, sum := make([]float64, len(c.Members)), 0.0
		free := m.dims.vec(c.Allocatable)
		for j, x := range c.Members {
			parts[j] = float64(len(x.Pods)) * share(m.classes[x.Class].need, free)
			sum += parts[j]
		}
		for j, x := range c.Members {
			out.more[x.Class] += part * c.Expected.Price * parts[j] / sum
		}
	}
	return out
}

// within returns how much more the preferences may cost together: what the classes that have them may spend.
func (s *spending) within(preferences []preference) float64 {
	sum, seen := 0.0, make([]bool, len(s.more))
	for i := range preferences {
		if ci := preferences[i].class; !seen[ci] {
			seen[ci] = true
			sum += s.more[ci]
		}
	}
	return sum
}

// price guesses what the preference costs beside those of its class that are kept so far, and adds it to them. It returns the
// preference, in several strengths where it is about hosts; or why it is hopeless.
func (pc *preferenceCosts) price(kept *want, w preference, budget spending) ([]preference, string) {
	if w.host != nil {
		return pc.priceHost(w, budget)
	}
	if w.over != "" && !pc.colocation.canHave(w.over) {
		return nil, "no node has the label " + w.over
	}
	before := pc.trial(w.class, *kept)
	with := want{pod: kept.pod.DeepCopy(), spread: kept.spread, untainted: kept.untainted}
	w.apply(&with)
	after := pc.trial(w.class, with)
	if w.near != nil && !pc.hasCompany(w.near) {
		return nil, "there is no such pod"
	}
	n := float64(len(pc.classes[w.class].refs))
	low, lowWith := pc.perPod(&before), pc.perPod(&after)
	switch {
	case math.IsInf(low, 1):
		w.cost = 0 // The class needs rooms; whether it keeps them shows.
	case math.IsInf(lowWith, 1):
		return nil, "no node that can be launched has it beside what the pod requires or prefers more"
	default:
		w.cost = n * (lowWith - low)
	}
	for i := len(kept.spread); i < len(with.spread); i++ {
		w.cost += n * pc.unevenness(&after, with.spread[i].Key())
	}
	if w.cost > budget.more[w.class] {
		return nil, ""
	}
	*kept = with
	return []preference{w}, ""
}

// trial is the class as it would be if held to the want.
func (pc *preferenceCosts) trial(ci int, w want) class {
	c := pc.dims.newClass(pc.in.Classes[ci], w)
	c.apply(byClass(pc.in.Rejected)[c.key])
	c.blocked = pc.classes[ci].blocked
	c.hostile = pc.fitter.hostile(&c)
	c.fits, c.demands = pc.fitter.fit(&c)
	c.fits.Intersect(pc.market.available)
	return c
}

// perPod is the least price of a pod's share of a node; infinite if it fits none.
func (pc *preferenceCosts) perPod(c *class) float64 {
	best := math.Inf(1)
	for oi := range pc.market.offers {
		if c.fits.Has(oi) {
			best = min(best, pc.market.offers[oi].Price*share(c.need, pc.market.offers[oi].free))
		}
	}
	return best
}

// unevenness is how much more a pod costs on average if the values of the label are used alike.
func (pc *preferenceCosts) unevenness(c *class, key string) float64 {
	least := map[string]float64{}
	for oi := range pc.market.offers {
		if !c.fits.Has(oi) {
			continue
		}
		price := pc.market.offers[oi].Price * share(c.need, pc.market.offers[oi].free)
		for _, v := range pc.market.values(c.demands, oi, key) {
			if have, ok := least[v]; !ok || price < have {
				least[v] = price
			}
		}
	}
	if len(least) == 0 {
		return 0
	}
	sum, lowest := 0.0, math.Inf(1)
	for _, key := range sortedKeys(least) {
		sum, lowest = sum+least[key], min(lowest, least[key])
	}
	return sum/float64(len(least)) - lowest
}

// looser is how many weaker strengths of a spread over hosts are tried beside the one that seems to cost nothing.
const looser = 2

// priceHost asks for at most k pods per node, for k from the preference's own skew on, doubled each time: that needs so many
// nodes, of which the cheapest cost so much. What the plan without preferences costs is had for nothing.
func (pc *preferenceCosts) priceHost(w preference, budget spending) ([]preference, string) {
	c := pc.trial(w.class, want{})
	cheapest := math.Inf(1)
	for oi := range pc.market.offers {
		if c.fits.Has(oi) {
			cheapest = min(cheapest, pc.market.offers[oi].Price)
		}
	}
	if math.IsInf(cheapest, 1) {
		return nil, "no node can be launched for the pod"
	}
	n := 0
	for ci := range pc.classes {
		if o := &pc.classes[ci]; w.host.Matches(o.pod) {
			n += len(o.refs)
		}
	}
	var out []preference
	free := 0
	for k := w.host.MaxSkew; k < n && free <= looser; k *= 2 {
		level := w
		level.skew = k
		level.cost = max(0, float64((n+k-1)/k)*cheapest-budget.plain)
		if level.cost == 0 {
			free++
		}
		if level.cost <= budget.more[w.class] {
			out = append(out, level)
		}
	}
	if n <= w.host.MaxSkew {
		w.skew = w.host.MaxSkew
		out = append(out, w)
	}
	return out, ""
}

// grant adds the preference to the want; a stronger spread over hosts takes the place of a weaker one.
func (w *preference) grant(o *want) {
	if w.host == nil {
		w.apply(o)
		return
	}
	for i := range o.spread {
		if o.spread[i].id == w.id+1 {
			o.spread[i].MaxSkew = min(o.spread[i].MaxSkew, w.skew)
			return
		}
	}
	s := *w.host
	s.id, s.MaxSkew = w.id+1, w.skew
	o.spread = append(o.spread, s)
}

// hasCompany says that a pod that exists or is planned matches the rule.
func (pc *preferenceCosts) hasCompany(r *relations.Term) bool {
	for ci := range pc.classes {
		if len(pc.classes[ci].refs) > 0 && r.Matches(pc.classes[ci].pod) {
			return true
		}
	}
	for i := range pc.in.Nodes {
		if slices.ContainsFunc(pc.in.Nodes[i].Pods, r.Matches) {
			return true
		}
	}
	return false
}

// preferenceCosts estimates what preferences cost.
type preferenceCosts struct {
	in         *Input
	market     *market
	relations  *relations.Relations
	fitter     *fitter
	colocation *colocation
	classes    []class
	dims       dims
	rooms      []room
}
