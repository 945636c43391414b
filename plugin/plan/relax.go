package plan

import (
	"maps"
	"math"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
	"github.com/slipway-k8s/slipway/plugin/plan/relations"
)

// relax takes out of the model what a plan keeps to though other nodes for the same pods need not, so that a bound is one for all of
// them, and says whether there was anything:
//
//   - a spread over hosts limits each node because an empty one could be launched at any time, and would count. Where limits and
//     reservations leave no room for it, the pods may stand closer: with maxSkew 1, three of them on two nodes. So the limit holds
//     only for classes that could have a node more beside whatever else the plan's bill buys;
//   - required anti-affinity by a label limits no node that may be launched without the label;
//   - a volume that several pods use is attached once to a node, however many of them are there;
//   - of alternatives that demand different values of a label that a NodePool leaves open, a plan uses one, and that may change once limits are used up.
func (rx *relaxation) relax(p *Plan) bool {
	shared, freed := rx.relaxVolumes(), rx.relaxTerms()
	closed := rx.relaxRules(p)
	if closed {
		rx.colocation.nodeRules = nil
		rx.colocation.compileNodeRules()
	}
	return shared || freed || closed
}

// relaxTerms lets each class use what any of its alternatives fits, whatever that demands of open labels.
func (rx *relaxation) relaxTerms() bool {
	relaxed := false
	for ci := range rx.classes {
		c := &rx.classes[ci]
		for pi := range rx.market.pools {
			p := &rx.market.pools[pi]
			if len(c.terms) < 2 || !c.enters(p) {
				continue
			}
			if all, differ := rx.fitter.fitAny(c, p); differ {
				c.fits.Union(all)
				c.demands[pi], relaxed = nil, true
			}
		}
	}
	return relaxed
}

// relaxVolumes attaches volumes of several pods with none of them.
func (rx *relaxation) relaxVolumes() bool {
	relaxed, users := false, map[string]int{}
	for ci := range rx.classes {
		for _, v := range rx.classes[ci].shared {
			users[v.claim] += len(rx.classes[ci].refs)
		}
	}
	for ci := range rx.classes {
		c := &rx.classes[ci]
		for _, v := range c.shared {
			if users[v.claim] > 1 {
				c.need[v.dim]--
				relaxed = true
			}
		}
	}
	return relaxed
}

// relaxRules closes the rules that limit no node.
func (rx *relaxation) relaxRules(p *Plan) bool {
	var endless bitset.Set
	closed := false
	rules := rx.relations.Rules()
	for i := range rules {
		r := &rules[i]
		c := &rx.classes[r.Owner()]
		var limits bool
		switch {
		case r.Kind() == relations.AntiAffinity && !r.OverHosts():
			limits = rx.market.each(c.fits, func(oi int) bool { return rx.market.mayLack(c.demands, oi, r.Key()) }).Empty()
		case r.Kind() == relations.Spread && !r.Soft() && r.OverHosts():
			if endless == nil {
				endless = rx.endless(p)
			}
			limits = !rx.market.each(c.fits, endless.Has).Empty()
		default:
			continue
		}
		r.SetClosed(!limits)
		closed = closed || !limits
	}
	return closed
}

// endless are the offers of which one more can be bought beside the nodes of the plan, and beside any others that cost no more.
func (rx *relaxation) endless(p *Plan) bitset.Set {
	pools := maps.Clone(rx.in.Catalog.NodePools)
	s := second{in: *rx.in, first: p}
	for i := range p.Claims {
		np := pools[p.Claims[i].NodePool]
		np.Usage = s.usage(np, &p.Claims[i])
		pools[np.Name] = np
	}
	out := bitset.New(len(rx.market.offers))
	for pi := range rx.market.pools {
		left := rx.beside(pi, pools[rx.market.pools[pi].Name].Usage, p.CostPerHour)
		for oi := rx.market.pools[pi].offers[0]; oi < rx.market.pools[pi].offers[1]; oi++ {
			room := rx.market.available.Has(oi) && rx.market.offers[oi].supply == ""
			for i, used := range usageOf(rx.market, oi) {
				room = room && float64(used) <= left[i]
			}
			if room {
				out.Add(oi)
			}
		}
	}
	return out
}

// beside is what each limit of the pool leaves beside what is used, and beside the most that reservations and so many USD per hour
// can use up.
func (rx *relaxation) beside(pi int, used corev1.ResourceList, bill float64) []float64 {
	mk := rx.market
	p := &mk.pools[pi]
	left := make([]float64, len(p.limits))
	for i, l := range p.limits {
		perDollar, reserved := 0.0, 0.0
		for oi := p.offers[0]; oi < p.offers[1]; oi++ {
			o := &mk.offers[oi]
			switch one := float64(usageOf(mk, oi)[i]); {
			case !mk.available.Has(oi) || one == 0:
			case o.ReservationID != "":
				reserved += one * float64(o.Remaining)
			case o.supply != "":
				reserved += one * math.Floor(float64(rx.supplies.left[o.supply])/float64(o.draw))
			default:
				perDollar = max(perDollar, one/max(o.Price, 1e-9))
			}
		}
		left[i] = float64(l.max) - max(float64(amount(l.name, used[l.name])), float64(l.used)+reserved+math.Ceil(bill*perDollar))
	}
	return left
}

// evenSpread says that any nodes for the pods of a class have so many of them at least in each of the domains.
type evenSpread struct {
	key     string
	domains []string
	least   int
}

// spreads returns what spreads over zones, or over other domains that are not single nodes, ask of the classes whose pods they count, and only these. Of n
// pods in at most d domains, no two of which may differ by more than s, each domain that counts has (n - (d-1) s) / d at least, rounded up: with m in
// it, the others have m + s at most, and all together m + (d-1) (m+s). Domains count here into which one more node can be launched whatever else is bought,
// so that no other nodes for the pods do without them.
func (rx *relaxation) spreads(p *Plan) map[int]evenSpread {
	out := map[int]evenSpread{}
	var endless bitset.Set
	rules := rx.relations.Rules()
	for i := range rules {
		r := &rules[i]
		ci := r.Owner()
		if _, known := out[ci]; known || r.Kind() != relations.Spread || r.OverHosts() || r.Total() > 0 || !rx.countsOnly(r, ci) {
			continue
		}
		if endless == nil {
			endless = rx.endless(p)
		}
		c, always, all := &rx.classes[ci], map[string]bool{}, map[string]bool{}
		for _, d := range r.Domains() {
			all[d.Value] = true
		}
		c.fits.Each(func(oi int) {
			rx.market.addValues(all, c.demands, oi, r.Key())
			if endless.Has(oi) && !rx.market.offers[oi].Probation {
				rx.market.addValues(always, c.demands, oi, r.Key())
			}
		})
		least := (len(c.refs) - (len(all)-1)*r.MaxSkew() + len(all) - 1) / max(len(all), 1)
		if least > 0 && len(always) > 0 && len(always) >= r.MinDomains() {
			out[ci] = evenSpread{r.Key(), sortedKeys(always), least}
		}
	}
	return out
}

// countsOnly reports whether the rule counts the pods of the class, and of no other one.
func (rx *relaxation) countsOnly(r *relations.Rule, ci int) bool {
	for o := range rx.classes {
		if r.Counts(o) != (o == ci) && len(rx.classes[o].refs) > 0 {
			return false
		}
	}
	return true
}

// relaxation drops what a lower bound does without.
type relaxation struct {
	in         *Input
	market     *market
	relations  *relations.Relations
	fitter     *fitter
	colocation *colocation
	supplies   *supplies
	classes    []class
}
