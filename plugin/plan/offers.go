package plan

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
)

// compileOffers lists what the requirements of the pools let be bought.
func (mb *marketBuilder) compileOffers() {
	mb.pools = commitment.Pools(mb.in.Catalog.Commitments)
	for pi := range mb.market.pools {
		p := &mb.market.pools[pi]
		p.types[0], p.offers[0] = len(mb.market.types), len(mb.market.offers)
		list := mb.in.Catalog.InstanceTypes[p.TypesKey()]
		byName := func(a, b catalog.InstanceType) int { return strings.Compare(a.Name, b.Name) }
		if !slices.IsSortedFunc(list, byName) {
			list = slices.Clone(list)
			slices.SortFunc(list, byName)
		}
		mb.market.types, mb.market.offers = slices.Grow(mb.market.types, len(list)), slices.Grow(mb.market.offers, countOfferings(list))
		for i := range list {
			if p.broken == nil {
				mb.addShape(pi, &list[i])
			}
		}
		p.types[1], p.offers[1] = len(mb.market.types), len(mb.market.offers)
	}
	mb.market.available = bitset.New(len(mb.market.offers))
	for i := range mb.market.offers {
		if mb.market.offers[i].Available {
			mb.market.available.Add(i)
		}
	}
}

// countOfferings counts those of all instance types.
func countOfferings(list []catalog.InstanceType) (n int) {
	for i := range list {
		n += len(list[i].Offerings)
	}
	return n
}

func (mb *marketBuilder) addShape(pi int, it *catalog.InstanceType) {
	p := &mb.market.pools[pi]
	s := shape{InstanceType: it, pool: pi, offers: [2]int{len(mb.market.offers), 0}}
	free := mb.dims.node(it.Allocatable, attachLimits(it))
	byZone := func(a, b catalog.Offering) int {
		return cmp.Or(strings.Compare(a.Zone, b.Zone), strings.Compare(a.CapacityType, b.CapacityType))
	}
	offerings := it.Offerings
	if !slices.IsSortedFunc(offerings, byZone) {
		offerings = slices.Clone(offerings)
		slices.SortStableFunc(offerings, byZone)
	}
	charges := it.Charges.Assuming(p.IdleCPU)
	region, zone := "", ""
	for i := range offerings {
		of := &offerings[i]
		if of.Zone != zone {
			zone, region = of.Zone, mb.market.region(of.Zone)
		}
		o := offer{Offering: *of, shape: len(mb.market.types), pool: pi, region: region, free: free, cpu: free[dimCPU], charges: &charges}
		if !priced(of) || !mb.market.poolAllows(p, &s, &o) {
			continue
		}
		if o.ReservationID != "" {
			o.supply, o.draw = o.ReservationID, 1
		}
		o.Price += p.NodeCost
		mb.market.offers = append(mb.market.offers, o)
		mb.addCovered(&s, &o)
	}
	s.offers[1] = len(mb.market.offers)
	if s.offers[0] == s.offers[1] {
		return
	}
	s.devices = devices(it.Allocatable)
	for _, l := range p.limits {
		used := int64(1)
		if l.name != "nodes" {
			used = amount(l.name, it.Capacity[l.name])
		}
		s.usage = append(s.usage, used)
	}
	mb.limitUSD(p, &s)
	mb.market.types = append(mb.market.types, s)
}

// limitUSD notes what the offers of a shape count against the pool's limit in USD: what each costs, without what interruptions or commitments
// make of it. Other instance types that a claim names count nothing beyond that here: where the limit leaves no room for them, the launcher takes
// them out of the claim.
func (mb *marketBuilder) limitUSD(p *pool, s *shape) {
	at := slices.IndexFunc(p.limits, func(l limit) bool { return l.name == catalog.LimitUSD })
	if at < 0 {
		return
	}
	list := 0.0
	for oi := s.offers[0]; oi < s.offers[1]; oi++ {
		o := &mb.market.offers[oi]
		if o.covered == "" { // The offers at the price of commitments follow the one that they stand for.
			list = o.Price - p.NodeCost
		}
		o.usage = slices.Clone(s.usage)
		o.usage[at] = s.LimitedUSD(list, p.Declared)
	}
}

// devices are the names with a domain and a quantity. Elastic Fabric Adapters are none: a node has them only if a pod needs one.
func devices(list corev1.ResourceList) []corev1.ResourceName {
	var out []corev1.ResourceName
	for name, q := range list {
		if strings.Contains(string(name), "/") && name != catalog.ResourceEFA && !q.IsZero() {
			out = append(out, name)
		}
	}
	return out
}

func (mk *market) poolAllows(p *pool, s *shape, o *offer) bool {
	for k, set := range p.reqs {
		if _, open := p.open[k]; open {
			// A NodePool may require a partition where its class has no placement group.
			if _, grouped := labelOf(p, s, o, catalog.LabelPlacementGroupID); grouped || k != catalog.LabelPlacementGroupPartition {
				continue
			}
		}
		v, ok := labelOf(p, s, o, k)
		if !ok && !set.Absent || ok && !set.Has(v) {
			return false
		}
	}
	return true
}

// marketBuilder compiles what can be bought.
type marketBuilder struct {
	in     *Input
	market *market
	dims   dims
	// pools are the commitments.
	pools []commitment.Pool
}

// compilePools sorts the pools by weight, highest first, then by name.
func (mb *marketBuilder) compilePools() {
	for _, name := range slices.Sorted(maps.Keys(mb.in.Catalog.NodePools)) {
		mb.market.pools = append(mb.market.pools, newPool(mb.in.Catalog.NodePools[name]))
	}
	slices.SortStableFunc(mb.market.pools, func(a, b pool) int { return cmp.Compare(b.Weight, a.Weight) })
}
