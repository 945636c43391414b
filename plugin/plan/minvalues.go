package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
)

// keepMinValues cuts the list of types to what a claim may name, keeping as many distinct values as the pool's minValues
// ask for: a type further down that brings a new value displaces the last one that brings none, or joins where there is room.
// Types from the plain-th on are named for that only.
func (cf *claimForms) keepMinValues(pool *pool, all []int, plain int, sp span) ([]int, bool) {
	out := all[:min(plain, maxAlternatives)]
	further := all[len(out):]
	for _, r := range pool.Requirements {
		if r.MinValues <= 0 {
			continue
		}
		key := catalog.NormalKey(r.Key)
		for _, ti := range further {
			have := cf.distinct(key, out, sp)
			if len(have) >= int(r.MinValues) {
				break
			}
			if more := cf.distinct(key, append(slices.Clone(out), ti), sp); len(more) > len(have) {
				out = cf.join(pool, out, ti, sp)
			}
		}
	}
	for _, r := range pool.Requirements {
		if len(cf.distinct(catalog.NormalKey(r.Key), out, sp)) < int(r.MinValues) && !cf.in.MinValuesBestEffort {
			return out, false
		}
	}
	return out, true
}

func (cf *claimForms) join(pool *pool, list []int, ti int, sp span) []int {
	if len(list) < maxAlternatives {
		return append(slices.Clip(list), ti)
	}
	return cf.displace(pool, list, ti, sp)
}

// displace puts the type in the place of the last one without which no minValues is lost.
func (cf *claimForms) displace(pool *pool, list []int, ti int, sp span) []int {
	for i := len(list) - 1; i > 0; i-- {
		without := slices.Delete(slices.Clone(list), i, i+1)
		loses := slices.ContainsFunc(pool.Requirements, func(r catalog.Requirement) bool {
			key := catalog.NormalKey(r.Key)
			before := len(cf.distinct(key, list, sp))
			return r.MinValues > 0 && before <= int(r.MinValues) && len(cf.distinct(key, without, sp)) < before
		})
		if !loses {
			return append(without, ti)
		}
	}
	return list
}

// distinct are the values of the key over the types and the span, sorted.
func (cf *claimForms) distinct(key string, types []int, sp span) []string {
	switch key {
	case corev1.LabelTopologyZone:
		return sp.zones
	case labelCapacityType:
		return sp.capacity
	case catalog.LabelZoneID:
		return cf.zoneIDs(types, sp)
	}
	var out []string
	for _, ti := range types {
		s := &cf.market.types[ti]
		if v, ok := labelOf(&cf.market.pools[s.pool], s, &cf.market.offers[s.offers[0]], key); ok && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out
}

// zoneIDs are the IDs of the span's zones in which one of the types is offered, sorted.
func (cf *claimForms) zoneIDs(types []int, sp span) []string {
	var out []string
	for _, ti := range types {
		s := &cf.market.types[ti]
		for oi := s.offers[0]; oi < s.offers[1]; oi++ {
			if o := &cf.market.offers[oi]; o.ZoneID != "" && slices.Contains(sp.zones, o.Zone) && !slices.Contains(out, o.ZoneID) {
				out = append(out, o.ZoneID)
			}
		}
	}
	slices.Sort(out)
	return out
}

// minValuesText says which minValues are not met.
func (cf *claimForms) minValuesText(pool *pool, types []int, sp span) string {
	var out []string
	for _, r := range pool.Requirements {
		if have := cf.distinct(catalog.NormalKey(r.Key), types, sp); len(have) < int(r.MinValues) {
			out = append(out, fmt.Sprintf("%s asks for %s, %d fit", r.Key, catalog.CountText(int(r.MinValues), "value"), len(have)))
		}
	}
	return strings.Join(out, "; ")
}

// maxOtherTypes is how many other offers are tried for a node that cannot keep its pool's minValues.
const maxOtherTypes = 12

// inParts plans a node again whose pool's minValues cannot be kept with it: as another offer, or cut in half, or, where nothing is
// left to cut, with every capacity type. Small nodes have more types that hold their pods. What cannot be launched alone is not to
// be planned onto these offers again, unless it is the limits' room for the others that is missing.
func (m *model) inParts(pk *packing, n node, slack []int64, next []int) ([]Claim, []node) {
	p := pk.problem
	if c, other, ok := m.otherwise(p, n, slack, next, false); ok {
		return []Claim{c}, []node{other}
	}
	left, right := halves(n.items)
	if len(right) == 0 {
		if c, other, ok := m.otherwise(p, n, slack, next, true); ok {
			return []Claim{c}, []node{other}
		}
		crowded := m.claimForms.crowdedOut(p, n)
		for _, it := range left {
			pk.best.left[it.unit] += it.n
			if crowded {
				pk.crowded = true
				continue
			}
			for _, q := range p.units[it.unit].parts {
				m.avoid(q.Class, m.market.offers[n.offer].pool, p.units[it.unit].fits)
			}
		}
		return nil, nil
	}
	var claims []Claim
	var nodes []node
	for _, items := range [][]item{left, right} {
		half := node{offer: n.offer, items: items, sum: make(vec, len(m.dims))}
		for _, it := range items {
			half.sum.add(p.units[it.unit].need, int64(it.n))
		}
		c, k := m.inParts(pk, half, slack, next)
		claims, nodes = append(claims, c...), append(nodes, k...)
	}
	return claims, nodes
}

// crowdedOut says that the node could keep its pool's minValues if no other of the plan counted against the pool's limits.
func (cf *claimForms) crowdedOut(p *problem, n node) bool {
	var free []int64
	for _, l := range cf.market.pools[cf.market.offers[n.offer].pool].limits {
		free = append(free, l.max-l.before)
	}
	if len(free) == 0 {
		return false
	}
	for _, oi := range cf.cheapestShared(p, n, free) {
		other, rest := n, slices.Clone(free)
		other.offer = oi
		cf.market.reserve(oi, 1, rest)
		if cf.form(cf.span(p, other, cf.market.shared(p, other)), &cf.market.offers[oi], rest).fine {
			return true
		}
	}
	return false
}

// otherwise plans the node as the cheapest of its pool's offers with which minValues can be kept.
func (m *model) otherwise(p *problem, n node, slack []int64, next []int, kinds bool) (Claim, node, bool) {
	for _, oi := range m.claimForms.cheapestShared(p, n, slack) {
		other := n
		other.offer = oi
		m.market.reserve(oi, 1, slack)
		if c, ok := m.claim(p, other, slack, next, kinds); ok {
			m.market.book([]node{other}, 1)
			m.supplies.book([]node{other}, 1)
			return c, other, true
		}
		m.market.reserve(oi, -1, slack)
	}
	return Claim{}, node{}, false
}

// reserve takes n nodes of the offer off what the limits of its pool leave.
func (mk *market) reserve(oi int, n int64, slack []int64) {
	for i, used := range usageOf(mk, oi) {
		slack[i] -= n * used
	}
}

// cheapestShared are offers of the node's pool that hold its pods and that limits and reservations leave room for, the cheapest
// first.
func (cf *claimForms) cheapestShared(p *problem, n node, slack []int64) []int {
	shared := cf.market.shared(p, n)
	var out []int
	for oi := range cf.market.offers {
		if !shared.Has(oi) || !cf.market.available.Has(oi) || !cf.supplies.holds(oi) {
			continue
		}
		roomy := true
		for i, used := range usageOf(cf.market, oi) {
			roomy = roomy && used <= slack[i]
		}
		if roomy {
			out = append(out, oi)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(cf.market.offers[a].Price, cf.market.offers[b].Price) })
	return out[:min(len(out), maxOtherTypes)]
}

// halves cuts the items in two of about as many units each; the second is empty where there is but one unit.
func halves(items []item) (left, right []item) {
	total := 0
	for _, it := range items {
		total += it.n
	}
	room := (total + 1) / 2
	for _, it := range items {
		first := min(it.n, room)
		if room -= first; first > 0 {
			left = append(left, item{it.unit, first})
		}
		if it.n > first {
			right = append(right, item{it.unit, it.n - first})
		}
	}
	return left, right
}

// avoid keeps the class off the offers of the pool in the plans to come of the same input, unless it demands something else of open labels.
func (m *model) avoid(ci, pi int, offers bitset.Set) {
	demand, known := m.classes[ci].demands[pi], m.lessons.without[ci]
	at := slices.IndexFunc(known, func(r refused) bool { return sameDemand(r.demand, demand) })
	if at < 0 {
		at, known = len(known), append(known, refused{demand, bitset.New(len(m.market.offers))})
	}
	for oi := m.market.pools[pi].offers[0]; oi < m.market.pools[pi].offers[1]; oi++ {
		if offers.Has(oi) {
			known[at].offers.Add(oi)
		}
	}
	m.lessons.without[ci] = known
	m.lessons.notes[[2]int{ci, pi}] = m.explainer.notes[[2]int{ci, pi}]
	m.again = true
}
