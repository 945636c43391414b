package plan

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// unit is what packing moves: one pod, or several that must share a node.
type unit struct {
	parts []part
	count int
	need  vec
	// fits are the offers that take one unit on an empty node; demands what it wants of the open keys, by pool.
	fits    bits
	demands []catalog.Requirements
	// last are the offers that a unit without a domain falls back on: with those on probation that fits lacks; nil for none.
	last bits
	// pinned says that the unit was given its domain: a node with it has to be in the zone it was planned in.
	pinned bool
	// domain is what it was given; nil for none.
	domain map[string]string
}

// newUnit joins the needs of the parts.
func (m *model) newUnit(parts []part, count int) unit {
	u := unit{parts: parts, count: count, need: make(vec, len(m.dims)), demands: make([]catalog.Requirements, len(m.pools))}
	for i, p := range parts {
		c := &m.classes[p.class]
		u.need.add(c.need, int64(p.n))
		if i == 0 {
			u.fits = c.fits.clone()
			copy(u.demands, c.demands)
			continue
		}
		u.fits.and(c.fits)
		for pi := range m.pools {
			if demandsClash(u.demands[pi], c.demands[pi]) {
				m.dropPool(u.fits, pi)
			}
			if len(c.demands[pi]) > 0 {
				u.demands[pi] = u.demands[pi].Intersect(c.demands[pi])
			}
		}
	}
	if len(parts) > 1 || parts[0].n > 1 {
		for oi := range m.offers {
			if u.fits.has(oi) && m.offers[oi].free.times(u.need) < 1 {
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

func (m *model) dropPool(set bits, pi int) {
	for oi := m.pools[pi].offers[0]; oi < m.pools[pi].offers[1]; oi++ {
		set[oi>>6] &^= 1 << (oi & 63)
	}
}

// maxPasses bounds how often pods that wait for others, by affinity or by spread, are tried again after some of those have got their place.
// A pass places all that wait in its order; only chains in the opposite order need one pass for each link. What is left then is
// inserted when the plan is filled up.
const maxPasses = 32

// units turns what is left of the classes into units, each with its domain. What can have none stays out.
func (m *model) units(left []int) []unit {
	m.memo = domainMemo{domains: map[string][]domain{}, fits: map[string]bits{}, reach: map[string]map[string]bool{}}
	defer func() { m.memo = domainMemo{} }()
	m.moreValues = map[string]int{}
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

// domain is one combination of values of the keys that matter to a unit.
type domain struct {
	values map[string]string
	name   string
	// weight is that of the heaviest pool that has it: its domains come first.
	weight int32
	// rank orders by the price of the unit's share of a node, in steps of 2 %.
	rank int
	cost float64
}

// assign gives each of the unit's pods a domain that the rules permit, the cheapest, and among equals the emptiest. It
// returns one unit per domain and takes them off u.
func (m *model) assign(u *unit) []unit {
	keys := m.keys(u)
	if len(keys) == 0 {
		out := *u
		u.count = 0
		m.recordUnit(&out, out.count, nil)
		return []unit{out}
	}
	domains := m.domainsOf(u, keys)
	m.helpful(u, domains)
	counts := map[string]int{}
	for u.count > 0 {
		best := m.bestDomain(u, domains)
		if best < 0 {
			if domains, best = m.moreDomains(u, keys, domains); best < 0 {
				break
			}
		}
		counts[domains[best].name]++
		m.recordUnit(u, 1, domains[best].values)
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

// keys are the label keys that matter to any part of the unit.
func (m *model) keys(u *unit) []string {
	var keys []string
	for _, p := range u.parts {
		for _, k := range m.keysOf(p.class) {
			if !slices.Contains(keys, k) {
				keys = append(keys, k)
			}
		}
	}
	return keys
}

func (m *model) recordUnit(u *unit, n int, values map[string]string) {
	at := func(key string) (string, bool) { v, ok := values[key]; return v, ok }
	for _, p := range u.parts {
		m.record(p.class, n*p.n, at)
	}
}

// bestDomain is the cheapest domain that the unit is permitted in, among equals the emptiest: of those that upset no spread of other
// pods if there are any. It is -1 for none.
func (m *model) bestDomain(u *unit, domains []domain) int {
	upsets := func(at lookup) bool {
		return slices.ContainsFunc(u.parts, func(p part) bool { return m.concerns[p.class].upsets(p.n, at) })
	}
	best, bestCount := -1, 0
	for _, even := range []bool{true, false} {
		for i := range domains {
			d := &domains[i]
			if best >= 0 && (d.weight < domains[best].weight || d.rank > domains[best].rank) {
				break
			}
			at := func(key string) (string, bool) { v, ok := d.values[key]; return v, ok }
			count := 0
			for _, t := range m.concerns[u.parts[0].class].tallies {
				count += t.rules * t.counts[d.values[t.key]]
			}
			if best >= 0 && count >= bestCount || !m.permitsAll(u, at) || even && upsets(at) {
				continue
			}
			best, bestCount = i, count
		}
		if best >= 0 {
			break
		}
	}
	return best
}

func (m *model) permitsAll(u *unit, at lookup) bool {
	for _, p := range u.parts {
		if !m.permits(p, at, true) {
			return len(u.parts) > 1 && m.inTurn(u, at)
		}
	}
	return true
}

// domainsOf lists the domains in which the unit could be launched now, the cheapest first.
func (m *model) domainsOf(u *unit, keys []string) []domain {
	// A label that no new node has makes no domain.
	keys = slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return !m.newLabels[k] })
	key, ok := domainKey(u, keys)
	if ok {
		if known, seen := m.memo.domains[key]; seen {
			return slices.Clone(known)
		}
	}
	out := m.findDomains(u, keys)
	if ok && m.memo.domains != nil {
		m.memo.domains[key] = slices.Clone(out)
	}
	return out
}

func (m *model) findDomains(u *unit, keys []string) []domain {
	if len(keys) == 0 {
		if m.each(u.fits, m.probation.buyable).empty() {
			return nil
		}
		return []domain{{values: map[string]string{}}}
	}
	found, alike := map[string]*domain{}, map[string][]*domain{}
	for oi := range m.offers {
		if !u.fits.has(oi) || !m.available.has(oi) || !m.withinLimits(oi) {
			continue
		}
		cost := m.offers[oi].Price * share(u.need, m.offers[oi].free)
		weight := m.pools[m.offers[oi].pool].Weight
		if onlyZone(keys) {
			if d, ok := found[m.offers[oi].Zone]; ok {
				d.join(cost, weight)
				continue
			}
		}
		of := placeKey(m.offers[oi].pool, keys, func(k string) (string, bool) { return m.label(oi, k) })
		list, ok := alike[of]
		if !ok {
			for _, values := range m.tuples(u, oi, keys) {
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

// rankDomains returns the domains, the cheapest first, those of the heaviest pools before all others.
func rankDomains(found map[string]*domain) []domain {
	var out []domain
	least := math.Inf(1)
	for _, d := range found {
		out = append(out, *d)
		least = min(least, d.cost)
	}
	for i := range out {
		if least > 0 {
			out[i].rank = int(math.Log(out[i].cost/least) / math.Log(1.02))
		}
	}
	slices.SortFunc(out, func(a, b domain) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), cmp.Compare(a.rank, b.rank), strings.Compare(a.name, b.name))
	})
	return out
}

// join adds another offer to the domain: those of the heaviest pools tell what it costs.
func (d *domain) join(cost float64, weight int32) {
	switch {
	case weight > d.weight:
		d.cost, d.weight = cost, weight
	case weight == d.weight:
		d.cost = min(d.cost, cost)
	}
}

func domainName(values map[string]string, keys []string) string {
	parts := make([]string, len(keys))
	for i, k := range keys {
		parts[i] = values[k]
	}
	return strings.Join(parts, "\x00")
}

// maxTuples is how many combinations of the values of labels that a NodePool leaves open are looked at: their number is the product over
// the labels. Where there are more, each value of a label is combined with another one of the labels before, and not with all of them.
const maxTuples = 256

// placeKey is equal for places of one NodePool with the same labels under the keys.
func placeKey(pool int, keys []string, at lookup) string {
	b := strconv.AppendInt(nil, int64(pool), 10)
	for _, k := range keys {
		if v, ok := at(k); ok {
			b = append(append(b, 0), v...)
		} else {
			b = append(b, 1)
		}
	}
	return string(b)
}

// tuples are the combinations of values that a node of the offer can have under the keys; a key that it lacks is absent.
func (m *model) tuples(u *unit, oi int, keys []string) []map[string]string {
	out := []map[string]string{{}}
	for _, k := range keys {
		values := m.values(u.demands, oi, k)
		if len(values) == 0 {
			continue
		}
		var next []map[string]string
		if len(out)*len(values) > maxTuples {
			for i := range min(max(len(out), len(values)), maxTuples) {
				c := map[string]string{k: values[i%len(values)]}
				maps.Copy(c, out[i%len(out)])
				next = append(next, c)
			}
			out = next
			continue
		}
		if m.mayLack(u.demands, oi, k) {
			next = slices.Clone(out)
		}
		for _, t := range out {
			for _, v := range values {
				c := map[string]string{k: v}
				maps.Copy(c, t)
				next = append(next, c)
			}
		}
		out = next
	}
	return out
}

// pin is n units narrowed to a domain: one value of each key, or none where it has none.
func (m *model) pin(u *unit, keys []string, values map[string]string, n int) unit {
	out := *u
	out.count, out.fits, out.demands = n, m.pinnedFits(u, keys, values), slices.Clone(u.demands)
	_, zone := values[corev1.LabelTopologyZone]
	_, zoneID := values[labelZoneID]
	out.pinned, out.domain = zone || zoneID, values
	for pi := range m.pools {
		for _, k := range keys {
			if _, open := m.pools[pi].open[k]; !open {
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
