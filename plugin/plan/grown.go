package plan

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
)

// grown is the claim with more pods: narrowed to the alternatives that hold them too, and to the expected zone where one
// of the newcomers minds its zone. False if the pool's minValues are lost by that, or the expected
// offer does not hold all.
func (m *model) grown(c *Claim, more []Member) (Claim, bool) {
	pi := slices.IndexFunc(m.market.pools, func(p pool) bool { return p.Name == c.NodePool })
	oi := slices.IndexFunc(m.market.offers, func(o offer) bool {
		return o.pool == pi && m.market.types[o.shape].Name == c.Expected.InstanceType && o.Zone == c.Expected.Zone && o.CapacityType == c.Expected.CapacityType && o.covered == c.Covered
	})
	if pi < 0 || oi < 0 {
		return *c, false
	}
	out := *c
	out.Members = joinMembers(c.Members, more)
	sum, shared := m.sumOf(out.Members), bitset.New(len(m.market.offers))
	for i := range m.market.offers {
		if m.market.offers[i].pool == pi {
			shared.Add(i)
		}
	}
	for _, x := range out.Members {
		shared.Intersect(m.classes[x.Class].fits)
	}
	shared = m.market.each(shared, func(i int) bool { return m.market.offers[i].free.holds(sum) })
	if !shared.Has(oi) {
		return *c, false
	}
	sp := span{shared: shared, zones: []string{c.Expected.Zone}, capacity: valuesIn(c.Requirements, labelCapacityType)}
	if !slices.ContainsFunc(more, func(x Member) bool { return len(m.relations.Keys(x.Class)) > 0 }) {
		sp.zones = m.market.zonesLeft(sp, m.market.offers[oi].shape, valuesIn(c.Requirements, corev1.LabelTopologyZone))
	}
	fit := m.claimForms.stillFit(c, oi, sp)
	alts, ok := m.claimForms.keepMinValues(&m.market.pools[pi], fit, len(fit), sp)
	if !ok {
		return *c, false
	}
	out.Alternatives = nil
	for _, ti := range alts {
		out.Alternatives = append(out.Alternatives, m.market.types[ti].Name)
	}
	allocatable := m.market.types[m.market.offers[oi].shape].Allocatable
	requests := m.dims.vec(allocatable)
	requests.add(m.market.offers[oi].free, -1)
	requests.add(sum, 1)
	out.Requests = m.dims.list(requests)
	out.Allocatable = maps.Clone(catalog.WithRequested(allocatable, out.Requests))
	out.Requirements = m.claimForms.narrowed(c.Requirements, alts, sp)
	return out, true
}

// stillFit are the expected type and those of the claim's alternatives that fit the span.
func (cf *claimForms) stillFit(c *Claim, expected int, sp span) []int {
	out := []int{cf.market.offers[expected].shape}
	for _, name := range c.Alternatives[1:] {
		ti := slices.IndexFunc(cf.market.types, func(s shape) bool { return s.pool == cf.market.offers[expected].pool && s.Name == name })
		if ti < 0 {
			continue
		}
		if _, ok := cf.supplies.spanPrice(sp, ti, &cf.market.offers[expected]); ok {
			out = append(out, ti)
		}
	}
	return out
}

// zonesLeft are those of the zones in which the expected shape still holds the pods.
func (mk *market) zonesLeft(sp span, shape int, zones []string) []string {
	var out []string
	for oi := mk.types[shape].offers[0]; oi < mk.types[shape].offers[1]; oi++ {
		o := &mk.offers[oi]
		if sp.shared.Has(oi) && slices.Contains(zones, o.Zone) && slices.Contains(sp.capacity, o.CapacityType) && !slices.Contains(out, o.Zone) {
			out = append(out, o.Zone)
		}
	}
	slices.Sort(out)
	return out
}

// narrowed is a claim's requirements for fewer alternatives.
func (cf *claimForms) narrowed(in []catalog.Requirement, alts []int, sp span) []catalog.Requirement {
	out := slices.Clone(in)
	for i := range out {
		r := &out[i]
		switch r.Key {
		case corev1.LabelTopologyZone:
			r.Values = sp.zones
		case corev1.LabelInstanceTypeStable:
			r.Values = nil
			for _, ti := range alts {
				r.Values = append(r.Values, cf.market.types[ti].Name)
			}
		case corev1.LabelArchStable, corev1.LabelOSStable:
			if vs := cf.distinct(r.Key, alts, sp); len(vs) > 0 {
				r.Values = vs
			}
		}
		if cf.in.MinValuesBestEffort {
			r.MinValues = min(r.MinValues, int32(max(len(cf.distinct(r.Key, alts, sp)), 0)))
		}
	}
	return out
}

// valuesIn lists the values of the requirement on the key.
func valuesIn(list []catalog.Requirement, key string) []string {
	for _, r := range list {
		if r.Key == key {
			return r.Values
		}
	}
	return nil
}

// sumOf is what the members take of one node together: a volume that several of them use is attached once.
func (m *model) sumOf(members []Member) vec {
	sum, seen := make(vec, len(m.dims)), map[string]bool{}
	for _, x := range members {
		c := &m.classes[x.Class]
		sum.add(c.need, int64(len(x.Pods)))
		for _, v := range c.shared {
			sum[v.dim] -= int64(len(x.Pods))
			if !seen[v.claim] {
				sum[v.dim]++
			}
			seen[v.claim] = true
		}
	}
	return sum
}
