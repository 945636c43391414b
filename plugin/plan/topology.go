package plan

import (
	"encoding/binary"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// countNode adds the pods of a node to the rules, and what they forbid to the classes.
func (m *model) countNode(ni int) {
	n := &m.in.Nodes[ni]
	if len(m.rules) == 0 && !slices.ContainsFunc(n.Pods, repels) {
		return
	}
	at := normalLabels(n)
	for i := range m.rules {
		r := &m.rules[i]
		v, ok := at[r.key]
		if !ok || r.kind == spread && !m.included(r, n, at) {
			continue
		}
		if r.kind == spread && !r.soft {
			r.domains[v] = true
		}
		m.countPods(r, ni, v)
	}
	for _, p := range n.Pods {
		if repels(p) {
			m.block(p, at)
		}
	}
}

// countPods adds the pods of a node, of which the rule's label has the value, to what the rule counts.
func (m *model) countPods(r *rule, ni int, v string) {
	pods := m.in.Nodes[ni].Pods
	for k, g := range m.peers.node[ni] {
		if r.groups.has(g) && (r.kind != spread || pods[k].DeletionTimestamp == nil) {
			r.counts[v]++
			r.total++
		}
		if r.kind == spread && pods[k] == m.in.Classes[r.owner].Pod {
			r.owners[v]++ // Of this batch, planned before.
		}
	}
}

func repels(p *corev1.Pod) bool {
	return p.Spec.Affinity != nil && p.Spec.Affinity.PodAntiAffinity != nil
}

// included is the spread's node inclusion policy (KEP-3094).
func (m *model) included(r *rule, n *Node, at map[string]string) bool {
	if r.soft {
		return true
	}
	c := &m.classes[r.owner]
	for _, s := range c.pod.Spec.TopologySpreadConstraints {
		if _, ok := at[NormalKey(s.TopologyKey)]; !ok && s.WhenUnsatisfiable == corev1.DoNotSchedule {
			return false
		}
	}
	if p := r.policy.NodeAffinityPolicy; p == nil || *p == corev1.NodeInclusionPolicyHonor {
		if !slices.ContainsFunc(c.own, func(t catalog.Requirements) bool { _, ok := t.Match(at); return ok }) {
			return false
		}
	}
	if p := r.policy.NodeTaintsPolicy; p != nil && *p == corev1.NodeInclusionPolicyHonor {
		if _, ok := Tolerates(c.pod.Spec.Tolerations, n.Taints); !ok {
			return false
		}
	}
	return true
}

// block keeps classes away from where a pod that exists does not tolerate them.
func (m *model) block(p *corev1.Pod, at map[string]string) {
	for _, t := range p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		v, ok := at[NormalKey(t.TopologyKey)]
		r, err := m.termRule(p, &t, true)
		if err != nil || !ok {
			continue
		}
		away := m.matched(&r).classes
		for ci := range m.classes {
			c := &m.classes[ci]
			if !away.has(ci) {
				continue
			}
			if c.blocked == nil {
				c.blocked = map[string]map[string]bool{}
			}
			key := NormalKey(t.TopologyKey)
			if c.blocked[key] == nil {
				c.blocked[key] = map[string]bool{}
			}
			c.blocked[key][v] = true
		}
	}
}

// attend finds the affinity that daemon pods meet on new nodes: the class is kept to the offers whose nodes have them, if
// there are any.
func (m *model) attend() {
	if len(m.daemons) == 0 {
		return
	}
	owned := map[int][]int{}
	for i := range m.rules {
		if r := &m.rules[i]; r.kind == affinity {
			owned[r.owner] = append(owned[r.owner], i)
		}
	}
	for ci, own := range owned {
		c := &m.classes[ci]
		near := c.fits.clone()
		for _, i := range own {
			near.and(m.daemonsFor(&m.rules[i]))
		}
		if !near.meets(m.available) {
			continue
		}
		c.fits = near
		for _, i := range own {
			m.rules[i].kind = attended
		}
	}
}

// daemonsFor are the offers whose nodes have the label of the rule, and a daemon pod that it matches.
func (m *model) daemonsFor(r *rule) bits {
	out := newBits(len(m.offers))
	for i := range m.daemons {
		if r.matches(m.daemons[i].pod) {
			out.or(m.daemons[i].fits)
		}
	}
	if isHost(r.key) {
		return out
	}
	return m.each(out, func(oi int) bool { _, ok := m.label(oi, r.key); return ok })
}

// openDomains adds to each spread the domains that a node could be launched into, as its inclusion policy sees nodes: by
// labels, whether or not one of them is large enough. A spread counts an empty zone that its pods cannot use, and so
// does the scheduler once anybody's node is there.
func (m *model) openDomains() {
	found := map[string]map[string]bool{} // Spreads of many classes see the same.
	for i := range m.rules {
		r := &m.rules[i]
		if r.kind != spread || r.soft {
			continue
		}
		c := &m.classes[r.owner]
		if !m.newLabels[r.key] {
			continue
		}
		if r.key == corev1.LabelHostname {
			if r.closed = m.in.second && m.shut(c); r.closed {
				m.hosts = append(m.hosts, i)
			}
			continue
		}
		seen := m.counted(r)
		seen.and(m.available)
		seen, _ = m.probation.spared(seen)
		at, known := domainsKey(seen, c.demands, r.key)
		if known && found[at] != nil {
			maps.Copy(r.domains, found[at])
			continue
		}
		open := map[string]bool{}
		for oi := range m.offers {
			if seen.has(oi) && (!m.in.second || m.withinLimits(oi)) {
				m.addValues(open, c.demands, oi, r.key)
			}
		}
		maps.Copy(r.domains, open)
		if known {
			found[at] = open
		}
	}
}

// shut says that no node can be launched for the class. One that only a preference keeps it off could be.
func (m *model) shut(c *class) bool {
	return c.want.pod == nil && !c.want.untainted &&
		m.each(c.fits, m.probation.buyable).empty()
}

// domainsKey tells spreads apart that see different domains; false for classes whose demands make them special.
func domainsKey(seen bits, demands []catalog.Requirements, key string) (string, bool) {
	if slices.ContainsFunc(demands, func(d catalog.Requirements) bool { return len(d) > 0 }) {
		return "", false
	}
	b := make([]byte, 0, 8*len(seen)+len(key))
	for _, w := range seen {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return string(append(b, key...)), true
}

// counted are the offers whose nodes the spread counts by its inclusion policies.
func (m *model) counted(r *rule) bits {
	c, seen := &m.classes[r.owner], newBits(len(m.offers))
	for pi := range m.pools {
		p := &m.pools[pi]
		_, tolerated := Tolerates(c.pod.Spec.Tolerations, p.Taints)
		if policy := r.policy.NodeTaintsPolicy; !p.Ready || !tolerated && policy != nil && *policy == corev1.NodeInclusionPolicyHonor {
			continue
		}
		for _, term := range c.own {
			if policy := r.policy.NodeAffinityPolicy; policy != nil && *policy == corev1.NodeInclusionPolicyIgnore {
				term = nil
			}
			m.match(p, term, seen)
		}
	}
	return seen
}

// softDomains are those that the owner's pods can be launched into now.
func (m *model) softDomains() {
	for i := range m.rules {
		r := &m.rules[i]
		if !r.soft || r.key == corev1.LabelHostname {
			continue
		}
		c := &m.classes[r.owner]
		fits, _ := m.probation.spared(c.fits)
		for oi := range m.offers {
			if fits.has(oi) && m.available.has(oi) && m.withinLimits(oi) {
				m.addValues(r.domains, c.demands, oi, r.key)
			}
		}
	}
}

// values are what a node of the offer may have under the key: one, unless the pool leaves the choice to the pods. Where
// that choice is endless, one value stands for all, or so many more as pods that must be apart need.
func (m *model) values(demands []catalog.Requirements, oi int, key string) []string {
	if v, ok := m.label(oi, key); ok {
		return []string{v}
	}
	p := m.offers[oi].pool
	set, ok := m.pools[p].open[key]
	if asked, demanded := demands[p][key]; demanded {
		set = asked
	}
	if !ok || !set.Complement {
		return set.List()
	}
	set.Absent = false
	return picks(set, 1+m.moreValues[key])
}

// addValues adds values to a set of them. Most offers share a label's few values: looking is cheaper than writing.
func (m *model) addValues(set map[string]bool, demands []catalog.Requirements, oi int, key string) {
	if v, ok := m.label(oi, key); ok {
		if !set[v] {
			set[v] = true
		}
		return
	}
	for _, v := range m.values(demands, oi, key) {
		set[v] = true
	}
}

// mayLack says that a node of the offer may be without the label.
func (m *model) mayLack(demands []catalog.Requirements, oi int, key string) bool {
	if _, ok := m.label(oi, key); ok {
		return false
	}
	p := m.offers[oi].pool
	set, ok := m.pools[p].open[key]
	if asked, demanded := demands[p][key]; demanded {
		set = asked
	}
	return !ok || set.Absent
}

// lookup gives the labels of a place.
type lookup func(key string) (string, bool)

// permits says whether n more pods of the class may go to a place; on a new node (fresh) rules by hostname are the
// packing's business.
func (m *model) permits(p part, at lookup, fresh bool) bool {
	ci := p.class
	for _, i := range m.concerns[ci].binding {
		r := &m.rules[i]
		if fresh && (r.key == corev1.LabelHostname || r.kind == attended) {
			continue
		}
		v, ok := at(r.key)
		if r.owner != ci && r.kind == spread {
			if ok && !r.staysEven(v, p.n) {
				return false
			}
			continue
		}
		if !r.allows(p, v, ok) {
			return false
		}
	}
	return true
}

// staysEven says that n pods more in the domain leave the spread as even as its owner's pods require where they are.
func (r *rule) staysEven(v string, n int) bool {
	least := r.least(v, n)
	for at, owners := range r.owners {
		count := r.counts[at]
		if at == v {
			count += n
		}
		if owners > 0 && count-least > r.maxSkew {
			return false
		}
	}
	return true
}

func (r *rule) allows(p part, v string, ok bool) bool {
	self := 0
	if r.classes.has(p.class) {
		self = p.n
	}
	switch r.kind {
	case spread:
		return ok && r.counts[v]+self-r.least(v, self-1) <= r.maxSkew
	case affinity, attended:
		return ok && (r.counts[v] > 0 || r.total == 0 && self > 0)
	case antiAffinity:
		if !ok {
			return true
		}
		return (r.owner != p.class || r.counts[v] == 0 && self <= 1) && (self == 0 || r.owners[v] == 0)
	}
	return true
}

// least is the global minimum of a spread, when n more pods are in the domain v. By hostname it is taken as zero where a
// node can be launched.
func (r *rule) least(v string, n int) int {
	if r.key == corev1.LabelHostname && !r.closed || len(r.domains) < r.minDomains {
		return 0
	}
	least := -1
	for d := range r.domains {
		count := r.counts[d]
		if d == v {
			count += max(n, 0)
		}
		if least < 0 || count < least {
			least = count
		}
	}
	return max(least, 0)
}
