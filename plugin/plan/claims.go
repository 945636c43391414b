package plan

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
	"github.com/slipway-k8s/slipway/plugin/plan/relations"
)

// claims writes one claim per node, the most expensive first. A node for which a NodePool's minValues cannot be kept is launched
// as another type, or in parts; a pod for which nothing of that helps stays out of next, and is taken out of the packing.
func (m *model) claims(pk *packing, next []int) []Claim {
	p := pk.problem
	nodes := pk.best.nodes
	slices.SortStableFunc(nodes, func(a, b node) int {
		x, y := &m.market.offers[a.offer], &m.market.offers[b.offer]
		return cmp.Or(cmp.Compare(x.pool, y.pool), cmp.Compare(y.Price, x.Price), cmp.Compare(a.offer, b.offer), slices.CompareFunc(a.items, b.items, compareItems))
	})
	slack := map[int][]int64{}
	for pi := range m.market.pools {
		for _, l := range m.market.pools[pi].limits {
			slack[pi] = append(slack[pi], l.max-l.used)
		}
	}
	m.spotSpread.crowds = m.spotSpread.crowdsOf(nodes)
	var out []Claim
	var kept []node
	for _, n := range nodes {
		pool := m.market.offers[n.offer].pool
		if last := len(kept) - 1; last >= 0 && len(slack[pool]) == 0 && kept[last].offer == n.offer && slices.Equal(kept[last].items, n.items) {
			out, kept = append(out, m.copyClaim(&out[last], next)), append(kept, n)
			continue
		}
		if c, ok := m.claim(p, n, slack[pool], next, false); ok {
			out, kept = append(out, c), append(kept, n)
			continue
		}
		m.market.book([]node{n}, -1)
		m.supplies.book([]node{n}, -1)
		m.market.reserve(n.offer, -1, slack[pool])
		claims, parts := m.inParts(pk, n, slack[pool], next)
		out, kept = append(out, claims...), append(kept, parts...)
	}
	pk.best.nodes = kept
	return out
}

// copyClaim is a claim for an equal node, with the next pods of the same classes. What does not change is shared.
func (m *model) copyClaim(of *Claim, next []int) Claim {
	c := *of
	c.Requirements, c.Labels, c.Taints = slices.Clone(of.Requirements), maps.Clone(of.Labels), slices.Clone(of.Taints)
	c.Members = make([]Member, 0, len(of.Members))
	for _, x := range of.Members {
		c.Members = append(c.Members, Member{Class: x.Class, Pods: take(m.classes, relations.Part{Class: x.Class, N: len(x.Pods)}, next)})
	}
	return c
}

func compareItems(a, b item) int { return cmp.Or(cmp.Compare(a.unit, b.unit), cmp.Compare(a.n, b.n)) }

// claim is for one node; kinds lets it name every capacity type, should minValues need that. False if they cannot be kept.
func (m *model) claim(p *problem, n node, slack []int64, next []int, kinds bool) (Claim, bool) {
	o := &m.market.offers[n.offer]
	s, pool := &m.market.types[o.shape], &m.market.pools[o.pool]
	ok := m.market.shared(p, n)
	sp := m.claimForms.span(p, n, ok)
	f, fine := (*form)(nil), false
	if apart, crowded := m.spotSpread.uncrowded(sp, n); crowded {
		f = m.claimForms.form(apart, o, slack)
		if fine = f.fine; fine {
			sp = apart
		}
	}
	if !fine {
		f = m.claimForms.form(sp, o, slack)
	}
	if !f.fine {
		if wide := m.widened(p, n, sp, kinds); len(wide.zones)+len(wide.capacity) > len(sp.zones)+len(sp.capacity) {
			if more := m.claimForms.form(wide, o, slack); more.fine {
				sp, f = wide, more
			}
		}
	}
	parts := p.parts(n)
	if !f.fine {
		for _, part := range parts {
			m.explainer.note(part.Class, o.pool, Reason{
				Code: "RequirementsConflict", cause: minValuesLost,
				Message: "minValues of the pool cannot be kept for a node that runs the pod: " + m.claimForms.minValuesText(pool, f.alts, sp),
			})
		}
		return Claim{}, false
	}
	c := Claim{
		NodePool: pool.Name, Replaces: m.in.Replaces, Covered: o.covered,
		Expected: Offer{InstanceType: s.Name, Zone: o.Zone, CapacityType: o.CapacityType, Price: o.Price},
		Taints:   slices.Clone(pool.Taints),
	}
	requests := m.dims.vec(s.Allocatable)
	requests.add(o.free, -1)
	requests.add(n.sum, 1)
	c.Requests = m.dims.list(requests)
	c.Allocatable = maps.Clone(catalog.WithRequested(s.Allocatable, c.Requests))
	c.Cost = s.CostOf(o.Price-pool.NodeCost, pool.Declared, requests[dimCPU])
	c.Cost.Interruptions = o.LossPerPod * float64(n.sum[dimPods])
	c.Expected.Price = o.cost(n.sum)
	c.PassedOver = m.listPrices.passedOver(p, n)
	values := m.market.openValues(p, n)
	c.Labels = m.market.nodeLabels(o, values)
	m.claimForms.write(&c, f, sp, pool, values)
	for _, part := range parts {
		c.Members = append(c.Members, Member{Class: part.Class, Pods: take(m.classes, part, next)})
	}
	return c, true
}

// parts are the node's pods by class, sorted.
func (p *problem) parts(n node) []relations.Part {
	var out []relations.Part
	for _, it := range n.items {
		for _, q := range p.units[it.unit].parts {
			out = addPart(out, q.Class, q.N*it.n)
		}
	}
	return sortedParts(out)
}

// shared are the offers of the node's pool that hold all of its units. Burstable instances on which these would use more than the baseline are
// not among them, unless the node's own does: EC2, which knows prices without surplus charges, would choose them.
func (mk *market) shared(p *problem, n node) bitset.Set {
	both := p.units[n.items[0].unit].fits.Clone()
	for _, it := range n.items[1:] {
		both.Intersect(p.units[it.unit].fits)
	}
	out, in := bitset.New(len(mk.offers)), mk.pools[mk.offers[n.offer].pool].offers
	var free vec // Offers of a type share what they have.
	large, bursting := false, mk.offers[n.offer].bursts(n.sum)
	for oi := in[0]; oi < in[1]; oi++ {
		if !both.Has(oi) {
			continue
		}
		if has := mk.offers[oi].free; free == nil || &has[0] != &free[0] {
			free, large = has, has.holds(n.sum) && (bursting || !mk.offers[oi].bursts(n.sum))
		}
		if large {
			out.Add(oi)
		}
	}
	return out
}

// span is the zones and capacity types of a claim: its instance types may be launched in any combination of them.
type span struct {
	shared          bitset.Set
	zones, capacity []string
}

// span keeps the expected zone where a pod of the node was planned for it, otherwise all in which the expected type
// holds the pods without being rougher; and the expected capacity type, so that the price is the one that was planned, unless the pool's
// minValues ask for more.
func (cf *claimForms) span(p *problem, n node, ok bitset.Set) span {
	o := &cf.market.offers[n.offer]
	pinned := slices.ContainsFunc(n.items, func(it item) bool { return p.units[it.unit].pinned })
	several := slices.ContainsFunc(cf.market.pools[o.pool].Requirements, func(r catalog.Requirement) bool {
		return catalog.NormalKey(r.Key) == labelCapacityType && r.MinValues > 1
	})
	sp := span{shared: ok, zones: []string{o.Zone}, capacity: []string{o.CapacityType}}
	s := &cf.market.types[o.shape]
	for oi := s.offers[0]; oi < s.offers[1]; oi++ {
		x := &cf.market.offers[oi]
		if !ok.Has(oi) || !x.Available || oi != n.offer && !cf.supplies.replaces(oi, o) {
			continue
		}
		if !pinned && x.CapacityType == o.CapacityType && !slices.Contains(sp.zones, x.Zone) && !x.rougher(o, n.sum) {
			sp.zones = append(sp.zones, x.Zone)
		}
		if several && x.Zone == o.Zone && !slices.Contains(sp.capacity, x.CapacityType) {
			sp.capacity = append(sp.capacity, x.CapacityType)
		}
	}
	slices.Sort(sp.zones)
	slices.Sort(sp.capacity)
	return sp
}

// widened is the span over all zones in which any type holds the node's pods, where the expected one may have no capacity, and with
// kinds over all capacity types: more types can be named so, which minValues may need.
func (m *model) widened(p *problem, n node, sp span, kinds bool) span {
	zones := true
	if slices.ContainsFunc(n.items, func(it item) bool { return p.units[it.unit].pinned }) {
		if zones = m.relations.Alone(p.parts(n), zonal); zones {
			sp.shared = m.placer.unpinned(p, n)
		}
	}
	sp.zones, sp.capacity = slices.Clone(sp.zones), slices.Clone(sp.capacity)
	for oi := range m.market.offers {
		o := &m.market.offers[oi]
		if !sp.shared.Has(oi) || !o.Available || oi != n.offer && !m.supplies.replaces(oi, &m.market.offers[n.offer]) {
			continue
		}
		kind, zone := slices.Contains(sp.capacity, o.CapacityType), slices.Contains(sp.zones, o.Zone)
		if (kind || kinds) && (zone || zones) {
			if !kind {
				sp.capacity = append(sp.capacity, o.CapacityType)
			}
			if !zone {
				sp.zones = append(sp.zones, o.Zone)
			}
		}
	}
	slices.Sort(sp.zones)
	slices.Sort(sp.capacity)
	return sp
}

// openValues are the values of those labels that the pool leaves to the pods of the node.
func (mk *market) openValues(p *problem, n node) catalog.Requirements {
	pi := mk.offers[n.offer].pool
	out := catalog.Requirements{}
	maps.Copy(out, mk.pools[pi].open)
	for _, it := range n.items {
		out = out.Intersect(p.units[it.unit].demands[pi])
	}
	return out
}

// anyPartition returns the partitions of a placement group that the pods of a node leave open, if there are several: EC2 then distributes
// instances evenly, and the node has the label once EC2 has chosen. It returns nil for other labels.
func anyPartition(key string, s catalog.Set) []string {
	if list := s.List(); key == catalog.LabelPlacementGroupPartition && len(list) > 1 {
		return list
	}
	return nil
}

// nodeLabels are those of a node of the offer, deprecated names of labels included: some nodeSelectors have them.
func (mk *market) nodeLabels(o *offer, open catalog.Requirements) map[string]string {
	out := map[string]string{}
	maps.Copy(out, mk.types[o.shape].Labels)
	maps.Copy(out, mk.pools[o.pool].labels)
	out[corev1.LabelTopologyZone], out[labelCapacityType] = o.Zone, o.CapacityType
	for _, k := range [...]string{catalog.LabelZoneID, catalog.LabelReservationID, catalog.LabelReservationType, catalog.LabelReservationInterruptible} {
		if v, ok := labelOf(&mk.pools[o.pool], &mk.types[o.shape], o, k); ok {
			out[k] = v
		}
	}
	if out[corev1.LabelTopologyRegion] == "" {
		out[corev1.LabelTopologyRegion] = o.region
	}
	if out[corev1.LabelInstanceTypeStable] == "" {
		out[corev1.LabelInstanceTypeStable] = mk.types[o.shape].Name
	}
	for k, s := range open {
		if v, ok := s.Any(); ok && anyPartition(k, s) == nil {
			out[k] = v
		}
	}
	for k, v := range maps.Clone(out) {
		for _, a := range catalog.Aliases(k) {
			out[a] = v
		}
	}
	return out
}

// claimRequirements are the pool's, narrowed to the alternatives and to what the pods ask for, sorted by key.
func (cf *claimForms) claimRequirements(pool *pool, alts []int, sp span, open catalog.Requirements) []catalog.Requirement {
	narrowed := map[string][]string{
		labelNodePool: {pool.Name}, corev1.LabelTopologyZone: sp.zones, labelCapacityType: sp.capacity,
	}
	for _, ti := range alts {
		narrowed[corev1.LabelInstanceTypeStable] = append(narrowed[corev1.LabelInstanceTypeStable], cf.market.types[ti].Name)
	}
	for _, k := range []string{corev1.LabelArchStable, corev1.LabelOSStable} {
		if vs := cf.distinct(k, alts, sp); len(vs) > 0 {
			narrowed[k] = vs
		}
	}
	maps.Copy(narrowed, cf.reservations(alts, sp))
	for k, s := range open {
		if all := anyPartition(k, s); all != nil {
			narrowed[k] = all
		} else if v, ok := s.Any(); ok {
			narrowed[k] = []string{v}
		}
	}
	var out []catalog.Requirement
	minValues := map[string]int32{}
	for _, r := range pool.Requirements {
		r.Key = catalog.NormalKey(r.Key)
		if _, ok := narrowed[r.Key]; ok {
			minValues[r.Key] = max(minValues[r.Key], r.MinValues)
			continue
		}
		r.Values = slices.Clone(r.Values)
		if cf.in.MinValuesBestEffort {
			r.MinValues = min(r.MinValues, int32(len(cf.distinct(r.Key, alts, sp))))
		}
		out = append(out, r)
	}
	for k, vs := range narrowed {
		if cf.in.MinValuesBestEffort {
			minValues[k] = min(minValues[k], int32(len(vs)))
		}
		out = append(out, catalog.Requirement{Key: k, Operator: corev1.NodeSelectorOpIn, Values: vs, MinValues: minValues[k]})
	}
	slices.SortStableFunc(out, func(a, b catalog.Requirement) int {
		return cmp.Or(strings.Compare(a.Key, b.Key), strings.Compare(string(a.Operator), string(b.Operator)))
	})
	return out
}
