package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
)

// listPrices says why nodes are not of the instance type with the lowest list price.
type listPrices struct {
	market  *market
	classes []class
	dims    dims
	// now is when the plan is made.
	now time.Time
	// order has the offers of each pool by list price, once it was asked for.
	order map[int][]int
}

// listed returns the price of the instance of an offer, without what its nodes cost besides.
func (mk *market) listed(oi int) float64 {
	o := &mk.offers[oi]
	return o.Price - mk.pools[o.pool].NodeCost - o.charges.Fixed()
}

// of returns the offers of a pool, those with the lowest list price first. Offers of reservations and commitments are not among them: they have no
// list price.
func (l *listPrices) of(pool int) []int {
	if out, ok := l.order[pool]; ok {
		return out
	}
	var out []int
	for oi := l.market.pools[pool].offers[0]; oi < l.market.pools[pool].offers[1]; oi++ {
		if o := &l.market.offers[oi]; o.covered == "" && !catalog.CapacityTypeOf(o.CapacityType).Counted {
			out = append(out, oi)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(l.market.listed(a), l.market.listed(b)) })
	if l.order == nil {
		l.order = map[int][]int{}
	}
	l.order[pool] = out
	return out
}

// passedOver returns why a node is not of the type with the lowest list price, of those that all its pods allow by their labels, zones and capacity
// types; empty where it is.
func (l *listPrices) passedOver(p *problem, n node) string {
	chosen := &l.market.offers[n.offer]
	where := l.places(p, n)
	for _, oi := range l.of(chosen.pool) {
		o := &l.market.offers[oi]
		if o.shape == chosen.shape && o.CapacityType == chosen.CapacityType || chosen.covered == "" && l.market.listed(oi) >= l.market.listed(n.offer) {
			return ""
		}
		if where[spotPlace{o.Zone, o.CapacityType}] && l.matches(p, n, oi) {
			return fmt.Sprintf("%s, %s in %s, lists %s USD/h, the lowest price: %s", l.market.types[o.shape].Name, o.CapacityType, o.Zone,
				catalog.USD(l.market.listed(oi)), l.why(n, oi))
		}
	}
	return ""
}

// spotPlace is where and how nodes are bought.
type spotPlace struct{ zone, capacityType string }

// places returns those in which the node's pool has an offer that each of the node's pods may use.
func (l *listPrices) places(p *problem, n node) map[spotPlace]bool {
	var both bitset.Set
	for i, it := range n.items {
		if i == 0 {
			both = p.units[it.unit].fits.Clone()
		} else {
			both.Intersect(p.units[it.unit].fits)
		}
	}
	out, in := map[spotPlace]bool{}, l.market.pools[l.market.offers[n.offer].pool].offers
	for oi := in[0]; oi < in[1]; oi++ {
		if both.Has(oi) {
			out[spotPlace{l.market.offers[oi].Zone, l.market.offers[oi].CapacityType}] = true
		}
	}
	return out
}

// matches reports whether all pods of the node allow the offer by its labels.
func (l *listPrices) matches(p *problem, n node, oi int) bool {
	pool := &l.market.pools[l.market.offers[oi].pool]
	for _, part := range p.parts(n) {
		if !slices.ContainsFunc(l.classes[part.Class].terms, func(t catalog.Requirements) bool { return l.market.matching(pool, t).Has(oi) }) {
			return false
		}
	}
	return true
}

// why returns what speaks against the offer for the pods of the node.
func (l *listPrices) why(n node, oi int) string {
	o, t := &l.market.offers[oi], l.market.types[l.market.offers[oi].shape]
	for d, need := range n.sum {
		if need > 0 && need > o.free[d] {
			if d == dimPods {
				return fmt.Sprintf("its node takes %s pods, and there are %s", figure(l.dims[d], max(o.free[d], 0)), figure(l.dims[d], need))
			}
			return fmt.Sprintf("too little %s, its node has %s for the %s of the pods", strings.TrimPrefix(string(l.dims[d]), attachPrefix),
				figure(l.dims[d], max(o.free[d], 0)), figure(l.dims[d], need))
		}
	}
	costs, pool := o.cost(n.sum), &l.market.pools[o.pool]
	cost := t.CostOf(o.Price-pool.NodeCost, pool.Declared, o.daemonCPU()+n.sum[dimCPU])
	cost.Interruptions = o.LossPerPod * float64(n.sum[dimPods])
	switch {
	case costs >= l.market.offers[n.offer].cost(n.sum):
		return fmt.Sprintf("its node costs %s (%s)", catalog.USD(costs), cost)
	case !o.Available || o.Probation:
		return fmt.Sprintf("its node would cost %s, but EC2 has refused it", catalog.USD(costs))
	case Unsettled(o.Offering, l.now):
		return fmt.Sprintf("its node would cost %s, but EC2 took nodes of it back or refused them: it is used from %s on, if EC2 does not again",
			catalog.USD(costs), o.SettlesAt.UTC().Format("15:04:05 UTC"))
	case t.BareMetal() && !l.market.types[l.market.offers[n.offer].shape].BareMetal():
		return fmt.Sprintf("its node would cost %s, but it is bare metal, and another type costs little more", catalog.USD(costs))
	case !l.market.withinLimits(oi):
		return fmt.Sprintf("its node would cost %s, but is over a limit of NodePool %s", catalog.USD(costs), pool.Name)
	}
	return fmt.Sprintf("its node would cost %s, but another rule is against it: minValues, the share of spot nodes in a zone, or a filter of the scheduler",
		catalog.USD(costs))
}
