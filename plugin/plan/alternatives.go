package plan

import (
	"cmp"
	"slices"
)

// maxAlternatives is how many instance types a claim names at most.
const maxAlternatives = 60

// alternatives are the instance types, the expected one first, then the cheapest, that hold the pods wherever the span
// lets them be launched; those that squander accelerators or bare metal only where minValues need them. More expensive ones may also be larger: they are
// taken as long as the limits hold even if EC2 picks the largest. False if minValues of the pool cannot be met.
func (cf *claimForms) alternatives(sp span, expected *offer, slack []int64) ([]int, bool) {
	pool := &cf.market.pools[expected.pool]
	type alt struct {
		shape     int
		price     float64
		squanders bool
	}
	all := make([]alt, 0, pool.types[1]-pool.types[0])
	for ti := pool.types[0]; ti < pool.types[1]; ti++ {
		if ti == expected.shape || !cf.withinSlack(ti, expected.shape, slack) {
			continue
		}
		if price, ok := cf.supplies.spanPrice(sp, ti, expected); ok {
			all = append(all, alt{ti, price, cf.squanders(ti, expected.shape)})
		}
	}
	slices.SortFunc(all, func(a, b alt) int {
		if a.squanders != b.squanders {
			if a.squanders {
				return 1
			}
			return -1
		}
		return cmp.Or(cmp.Compare(a.price, b.price), cmp.Compare(a.shape, b.shape))
	})
	plain := 1
	out := append(make([]int, 0, len(all)+1), expected.shape)
	for _, a := range all {
		out = append(out, a.shape)
		if !a.squanders {
			plain++
		}
	}
	out, ok := cf.keepMinValues(pool, out, plain, sp)
	for i := range slack {
		if !ok {
			break
		}
		extra := int64(0)
		for _, ti := range out {
			extra = max(extra, cf.market.types[ti].usage[i]-cf.market.types[expected.shape].usage[i])
		}
		slack[i] -= extra
	}
	return out, ok
}

// squanders says that the type has accelerators or the like that the expected one has not, or is bare metal and the expected one is not: no pod on
// the node asks for that.
func (cf *claimForms) squanders(ti, expected int) bool {
	if cf.market.types[ti].BareMetal() && !cf.market.types[expected].BareMetal() {
		return true
	}
	for _, name := range cf.market.types[ti].devices {
		if !slices.Contains(cf.market.types[expected].devices, name) {
			return true
		}
	}
	return false
}

func (cf *claimForms) withinSlack(ti, expected int, slack []int64) bool {
	for i, room := range slack {
		if extra := cf.market.types[ti].usage[i] - cf.market.types[expected].usage[i]; extra > 0 && extra > room {
			return false
		}
	}
	return true
}

// spanPrice is the least price of the type in the span, if it is offered there and each of its offerings there will do: commitments that
// pay for the expected one have to pay for it as well.
func (s *supplies) spanPrice(sp span, ti int, expected *offer) (float64, bool) {
	price, found := 0.0, false
	for oi := s.market.types[ti].offers[0]; oi < s.market.types[ti].offers[1]; oi++ {
		o := &s.market.offers[oi]
		if o.covered != "" || !slices.Contains(sp.zones, o.Zone) || !slices.Contains(sp.capacity, o.CapacityType) {
			continue
		}
		if !sp.shared.Has(oi) {
			return 0, false
		}
		at := s.coveredLike(oi, expected)
		if at < 0 || !s.replaces(at, expected) {
			return 0, false // Other claims have it.
		}
		o = &s.market.offers[at]
		if o.Available && (!found || o.Price < price) {
			price, found = o.Price, true
		}
	}
	return price, found
}
