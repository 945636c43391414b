package plan

import (
	"encoding/binary"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// attend finds the affinity that daemon pods meet on new nodes: the class is kept to the offers whose nodes have them, if
// there are any.
func (m *model) attend() {
	if len(m.daemons) == 0 {
		return
	}
	owned := map[int][]int{}
	for i := range m.relations.rules {
		if r := &m.relations.rules[i]; r.kind == affinity {
			owned[r.owner] = append(owned[r.owner], i)
		}
	}
	for ci, own := range owned {
		c := &m.classes[ci]
		near := c.fits.clone()
		for _, i := range own {
			near.and(m.daemonsFor(&m.relations.rules[i]))
		}
		if !near.meets(m.market.available) {
			continue
		}
		c.fits = near
		for _, i := range own {
			m.relations.rules[i].kind = attended
		}
	}
}

// daemonsFor are the offers whose nodes have the label of the rule, and a daemon pod that it matches.
func (m *model) daemonsFor(r *rule) bits {
	out := newBits(len(m.market.offers))
	for i := range m.daemons {
		if r.matches(m.daemons[i].pod) {
			out.or(m.daemons[i].fits)
		}
	}
	if isHost(r.key) {
		return out
	}
	return m.market.each(out, func(oi int) bool { _, ok := m.market.label(oi, r.key); return ok })
}

// openDomains adds to each spread the domains that a node could be launched into, as its inclusion policy sees nodes: by
// labels, whether or not one of them is large enough. A spread counts an empty zone that its pods cannot use, and so
// does the scheduler once anybody's node is there.
func (m *model) openDomains() {
	found := map[string]map[string]bool{} // Spreads of many classes see the same.
	for i := range m.relations.rules {
		r := &m.relations.rules[i]
		if r.kind != spread || r.soft {
			continue
		}
		c := &m.classes[r.owner]
		if !m.market.newLabels[r.key] {
			continue
		}
		if r.key == corev1.LabelHostname {
			if r.closed = m.in.second && m.shut(c); r.closed {
				m.relations.hosts = append(m.relations.hosts, i)
			}
			continue
		}
		seen := m.counted(r)
		seen.and(m.market.available)
		seen, _ = m.probation.spared(seen)
		at, known := domainsKey(seen, c.demands, r.key)
		if known && found[at] != nil {
			maps.Copy(r.domains, found[at])
			continue
		}
		open := map[string]bool{}
		for oi := range m.market.offers {
			if seen.has(oi) && (!m.in.second || m.market.withinLimits(oi)) {
				m.market.addValues(open, c.demands, oi, r.key)
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
		m.market.each(c.fits, m.probation.buyable).empty()
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
	c, seen := &m.classes[r.owner], newBits(len(m.market.offers))
	for pi := range m.market.pools {
		p := &m.market.pools[pi]
		_, tolerated := Tolerates(c.pod.Spec.Tolerations, p.Taints)
		if policy := r.policy.NodeTaintsPolicy; !p.Ready || !tolerated && policy != nil && *policy == corev1.NodeInclusionPolicyHonor {
			continue
		}
		for _, term := range c.own {
			if policy := r.policy.NodeAffinityPolicy; policy != nil && *policy == corev1.NodeInclusionPolicyIgnore {
				term = nil
			}
			seen.or(m.market.matching(p, term))
		}
	}
	return seen
}

// softDomains are those that the owner's pods can be launched into now.
func (m *model) softDomains() {
	for i := range m.relations.rules {
		r := &m.relations.rules[i]
		if !r.soft || r.key == corev1.LabelHostname {
			continue
		}
		c := &m.classes[r.owner]
		fits, _ := m.probation.spared(c.fits)
		for oi := range m.market.offers {
			if fits.has(oi) && m.market.available.has(oi) && m.market.withinLimits(oi) {
				m.market.addValues(r.domains, c.demands, oi, r.key)
			}
		}
	}
}
