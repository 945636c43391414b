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
	for pi := range m.pools {
		p := &m.pools[pi]
		p.types[0], p.offers[0] = len(m.types), len(m.offers)
		list := m.in.Catalog.InstanceTypes[p.NodeClass]
		byName := func(a, b catalog.InstanceType) int { return strings.Compare(a.Name, b.Name) }
		if !slices.IsSortedFunc(list, byName) {
			list = slices.Clone(list)
			slices.SortFunc(list, byName)
		}
		m.types, m.offers = slices.Grow(m.types, len(list)), slices.Grow(m.offers, 3*len(list))
		for i := range list {
			if p.broken == nil {
				m.addShape(pi, &list[i])
			}
		}
		p.types[1], p.offers[1] = len(m.types), len(m.offers)
	}
	m.available = newBits(len(m.offers))
	for i := range m.offers {
		if m.offers[i].Available {
			m.available.set(i)
		}
	}
}

func (m *model) addShape(pi int, it *catalog.InstanceType) {
	p := &m.pools[pi]
	s := shape{InstanceType: it, pool: pi, offers: [2]int{len(m.offers), 0}}
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
			zone, region = of.Zone, m.region(of.Zone)
		}
		o := offer{Offering: *of, shape: len(m.types), pool: pi, region: region, free: free}
		if !priced(of) || !m.poolAllows(p, &s, &o) {
			continue
		}
		m.offers = append(m.offers, o)
	}
	s.offers[1] = len(m.offers)
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
	m.types = append(m.types, s)
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

func (m *model) poolAllows(p *pool, s *shape, o *offer) bool {
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
