package plan

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// compileOffers lists what the requirements of the pools let be bought.
func (m *model) compileOffers() {
	for pi := range m.market.pools {
		p := &m.market.pools[pi]
		p.types[0], p.offers[0] = len(m.market.types), len(m.market.offers)
		list := m.in.Catalog.InstanceTypes[p.NodeClass]
		byName := func(a, b catalog.InstanceType) int { return strings.Compare(a.Name, b.Name) }
		if !slices.IsSortedFunc(list, byName) {
			list = slices.Clone(list)
			slices.SortFunc(list, byName)
		}
		m.market.types, m.market.offers = slices.Grow(m.market.types, len(list)), slices.Grow(m.market.offers, 3*len(list))
		for i := range list {
			if p.broken == nil {
				m.addShape(pi, &list[i])
			}
		}
		p.types[1], p.offers[1] = len(m.market.types), len(m.market.offers)
	}
	m.market.available = newBits(len(m.market.offers))
	for i := range m.market.offers {
		if m.market.offers[i].Available {
			m.market.available.set(i)
		}
	}
}

func (m *model) addShape(pi int, it *catalog.InstanceType) {
	p := &m.market.pools[pi]
	s := shape{InstanceType: it, pool: pi, offers: [2]int{len(m.market.offers), 0}}
	free := m.dims.node(it.Allocatable, attachLimits(it))
	byZone := func(a, b catalog.Offering) int {
		return cmp.Or(strings.Compare(a.Zone, b.Zone), strings.Compare(a.CapacityType, b.CapacityType))
	}
	offerings := it.Offerings
	if !slices.IsSortedFunc(offerings, byZone) {
		offerings = slices.Clone(offerings)
		slices.SortStableFunc(offerings, byZone)
	}
	region, zone := "", ""
	for i := range offerings {
		of := &offerings[i]
		if of.Zone != zone {
			zone, region = of.Zone, m.market.region(of.Zone)
		}
		o := offer{Offering: *of, shape: len(m.market.types), pool: pi, region: region, free: free}
		if !priced(of) || !m.market.poolAllows(p, &s, &o) {
			continue
		}
		m.market.offers = append(m.market.offers, o)
	}
	s.offers[1] = len(m.market.offers)
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
	m.market.types = append(m.market.types, s)
}

// devices are the names with a domain and a quantity.
func devices(list corev1.ResourceList) []corev1.ResourceName {
	var out []corev1.ResourceName
	for name, q := range list {
		if strings.Contains(string(name), "/") && !q.IsZero() {
			out = append(out, name)
		}
	}
	return out
}

func (mk *market) poolAllows(p *pool, s *shape, o *offer) bool {
	for k, set := range p.reqs {
		if _, open := p.open[k]; open {
			continue
		}
		v, ok := labelOf(p, s, o, k)
		if !ok && !set.Absent || ok && !set.Has(v) {
			return false
		}
	}
	return true
}

// probation is the offers whose launches failed lately. A node of them may never come: it is to hold only pods that can run
// nowhere else.
type probation struct {
	// offers on probation; nil for none.
	offers bits
	names  map[offerName]bool
	// buyable says that a node of an offer can be launched now.
	buyable func(oi int) bool
}

// offerName is how the catalog names an offer.
type offerName struct{ pool, instanceType, zone, capacityType string }

// newProbation lists the model's offers on probation. Those of a pool with strict minValues are left out: without them the
// pool might lack the values that it needs for a node of other offers.
func newProbation(m *model) probation {
	p := probation{names: map[offerName]bool{}, buyable: func(oi int) bool { return m.market.available.has(oi) && m.market.withinLimits(oi) }}
	several := func(r catalog.Requirement) bool { return r.MinValues > 1 }
	for oi := range m.market.offers {
		o := &m.market.offers[oi]
		in := &m.market.pools[o.pool]
		if !o.Probation || !m.in.MinValuesBestEffort && slices.ContainsFunc(in.Requirements, several) {
			continue
		}
		if p.offers == nil {
			p.offers = newBits(len(m.market.offers))
		}
		p.offers.set(oi)
		p.names[offerName{in.Name, m.market.types[o.shape].Name, o.Zone, o.CapacityType}] = true
	}
	return p
}

// spared is fits without the offers on probation if others can be bought; else it is fits itself, and false.
func (p *probation) spared(fits bits) (bits, bool) {
	if p.offers == nil {
		return fits, false
	}
	out, proven := p.without(fits), false
	out.each(func(oi int) { proven = proven || p.buyable(oi) })
	if !proven {
		return fits, false
	}
	return out, true
}

// without is fits less the offers on probation.
func (p *probation) without(fits bits) bits {
	out := fits.clone()
	for w, x := range p.offers {
		out[w] &^= x
	}
	return out
}

// doubtful says that a node of the catalog, or a claim of this plan, may never come: EC2 has not launched it, and the offering
// that it is expected to have is on probation.
func (p *probation) doubtful(n *Node, inFlight map[string]catalog.InFlightNode) bool {
	if f, ok := inFlight[n.Name]; ok {
		return f.Phase <= catalog.PhaseRecorded && p.names[offerName{f.NodePool, f.InstanceType, f.Zone, f.CapacityType}]
	}
	l := n.Labels
	return strings.HasPrefix(n.Name, plannedPrefix) &&
		p.names[offerName{l[labelNodePool], l[corev1.LabelInstanceTypeStable], l[corev1.LabelTopologyZone], l[labelCapacityType]}]
}
