package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// newUnit joins the needs of the parts.
func (m *model) newUnit(parts []part, count int) unit {
	u := unit{parts: parts, count: count, need: make(vec, len(m.dims)), demands: make([]catalog.Requirements, len(m.market.pools))}
	for i, p := range parts {
		c := &m.classes[p.class]
		u.need.add(c.need, int64(p.n))
		if i == 0 {
			u.fits = c.fits.clone()
			copy(u.demands, c.demands)
			continue
		}
		u.fits.and(c.fits)
		for pi := range m.market.pools {
			if demandsClash(u.demands[pi], c.demands[pi]) {
				m.market.dropPool(u.fits, pi)
			}
			if len(c.demands[pi]) > 0 {
				u.demands[pi] = u.demands[pi].Intersect(c.demands[pi])
			}
		}
	}
	if len(parts) > 1 || parts[0].n > 1 {
		for oi := range m.market.offers {
			if u.fits.has(oi) && m.market.offers[oi].free.times(u.need) < 1 {
				u.fits[oi>>6] &^= 1 << (oi & 63)
			}
		}
	}
	all := u.fits
	if fits, spared := m.probation.spared(all); spared {
		u.fits, u.last = fits, all
	}
	return u
}

// maxPasses bounds how often pods that wait for others, by affinity or by spread, are tried again after some of those have got their place.
// A pass places all that wait in its order; only chains in the opposite order need one pass for each link. What is left then is
// inserted when the plan is filled up.
const maxPasses = 32

// units turns what is left of the classes into units, each with its domain. What can have none stays out.
func (m *model) units(left []int) []unit {
	m.memo = domainMemo{places: map[string]places{}, inside: map[string]bits{}, joining: m.relations.findJoining()}
	defer func() { m.memo = domainMemo{} }()
	m.market.moreValues = map[string]int{}
	rest := slices.Clone(left)
	todo := m.bundles(rest)
	for _, ci := range m.order() {
		if rest[ci] > 0 {
			todo = append(todo, m.newUnit([]part{{ci, 1}}, rest[ci]))
		}
	}
	m.byFreedom(todo)
	var out []unit
	// Pods that follow others by affinity may have to wait until those have their domains. Each round gives a domain to one pod
	// at least, but for the last one before the last resort, and the last of all.
	for pass, progress, resorted := 0, true, false; progress && pass < maxPasses; pass++ {
		progress = false
		for i := range todo {
			if todo[i].count == 0 {
				continue
			}
			if m.in.budget.Cancelled() {
				return out
			}
			placed := m.assign(&todo[i])
			progress = progress || len(placed) > 0
			for _, u := range placed {
				u.fits, _ = m.probation.spared(u.fits)
				out = append(out, u)
			}
		}
		if progress || resorted {
			continue
		}
		resorted = true
		for i := range todo {
			if todo[i].count > 0 && todo[i].last != nil {
				todo[i].fits, progress = todo[i].last, true
			}
		}
	}
	return out
}

// assign gives each of the unit's pods a domain that the rules permit, the cheapest, and among equals the emptiest. It
// returns one unit per domain and takes them off u.
func (m *model) assign(u *unit) []unit {
	keys := m.relations.keys(u)
	if len(keys) == 0 {
		out := *u
		u.count = 0
		m.relations.recordUnit(&out, out.count, nil)
		return []unit{out}
	}
	domains := m.domainsOf(u, keys)
	m.helpful(u, domains)
	counts := map[string]int{}
	for u.count > 0 {
		best := m.relations.bestDomain(u, domains)
		if best < 0 {
			if domains, best = m.moreDomains(u, keys, domains); best < 0 {
				break
			}
		}
		counts[domains[best].name]++
		m.relations.recordUnit(u, 1, domains[best].values)
		u.count--
	}
	var out []unit
	for i := range domains {
		if n := counts[domains[i].name]; n > 0 {
			out = append(out, m.pin(u, keys, domains[i].values, n))
		}
	}
	return out
}

// domainsOf lists the domains in which the unit could be launched now, the cheapest first.
func (m *model) domainsOf(u *unit, keys []string) []domain {
	// A label that no new node has makes no domain.
	keys = slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return !m.market.newLabels[k] })
	if len(keys) > 0 && u.modest() {
		return m.placesOf(keys).domains(m.market.offers, u.fits, u.need)
	}
	return m.findDomains(u, keys)
}

func (m *model) findDomains(u *unit, keys []string) []domain {
	if len(keys) == 0 {
		if m.market.each(u.fits, m.probation.buyable).empty() {
			return nil
		}
		return []domain{{values: map[string]string{}}}
	}
	found, alike := map[string]*domain{}, map[string][]*domain{}
	for oi := range m.market.offers {
		if !u.fits.has(oi) || !m.market.available.has(oi) || !m.market.withinLimits(oi) {
			continue
		}
		cost := m.market.offers[oi].Price * share(u.need, m.market.offers[oi].free)
		weight := m.market.pools[m.market.offers[oi].pool].Weight
		if onlyZone(keys) {
			if d, ok := found[m.market.offers[oi].Zone]; ok {
				d.join(cost, weight)
				continue
			}
		}
		of := placeKey(m.market.offers[oi].pool, keys, func(k string) (string, bool) { return m.market.label(oi, k) })
		list, ok := alike[of]
		if !ok {
			for _, values := range m.market.tuples(u.demands, oi, keys) {
				name := domainName(values, keys)
				if found[name] == nil {
					found[name] = &domain{values: values, name: name, cost: cost, weight: weight}
				}
				list = append(list, found[name])
			}
			alike[of] = list
		}
		for _, d := range list {
			d.join(cost, weight)
		}
	}
	return rankDomains(found)
}

// pin is n units narrowed to a domain: one value of each key, or none where it has none.
func (m *model) pin(u *unit, keys []string, values map[string]string, n int) unit {
	out := *u
	out.count, out.fits, out.demands = n, m.pinnedFits(u, keys, values), slices.Clone(u.demands)
	_, zone := values[corev1.LabelTopologyZone]
	_, zoneID := values[labelZoneID]
	out.pinned, out.domain = zone || zoneID, values
	for pi := range m.market.pools {
		for _, k := range keys {
			if _, open := m.market.pools[pi].open[k]; !open {
				continue
			}
			one := catalog.Requirements{k: catalog.Set{Absent: true}}
			if v, ok := values[k]; ok {
				one = catalog.FromLabels(map[string]string{k: v})
			}
			out.demands[pi] = out.demands[pi].Intersect(one)
		}
	}
	return out
}
