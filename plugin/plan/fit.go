package plan

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// fit finds the offers whose nodes can run one pod of the class by its labels, taints, ports and resources, and what it demands of
// the open keys of each pool.
func (m *model) fit(c *class) (bits, []catalog.Requirements) {
	out, demands := newBits(len(m.market.offers)), make([]catalog.Requirements, len(m.market.pools))
	for pi := range m.market.pools {
		p := &m.market.pools[pi]
		if !c.tolerates(p.Taints) || !p.Ready || p.broken != nil || c.broken != nil || c.lacks != "" {
			continue
		}
		var got bits
		got, demands[pi] = m.fitPool(c, p)
		out.or(got)
	}
	return out, demands
}

// tolerates says that the taints let the class in, those with the effect PreferNoSchedule included where that is wanted.
func (c *class) tolerates(taints []corev1.Taint) bool {
	if c.want.untainted && !toleratesSoft(c.pod.Spec.Tolerations, taints) {
		return false
	}
	_, ok := Tolerates(c.pod.Spec.Tolerations, taints)
	return ok
}

// fitPool tries the alternatives of the class in their order. Those that demand the same of the open keys count
// together: the first one that fits, and can be had, decides which.
func (m *model) fitPool(c *class, p *pool) (bits, catalog.Requirements) {
	if found, demand := m.fitTerms(c, p, true); len(c.terms) < 2 || !found.empty() {
		return found, demand
	}
	return m.fitTerms(c, p, false)
}

// fitTerms is fitPool; with open, of several alternatives only those of which EC2 has capacity.
func (m *model) fitTerms(c *class, p *pool, open bool) (bits, catalog.Requirements) {
	found := newBits(len(m.market.offers))
	var demand catalog.Requirements
	for _, term := range c.terms {
		one := m.market.matching(p, term).clone()
		m.dropUnfit(c, one)
		if one.empty() || open && len(c.terms) > 1 && m.market.each(one, m.market.available.has).empty() {
			continue
		}
		want := demandOf(p, term)
		if found.empty() {
			demand = want
		}
		if sameDemand(demand, want) {
			found.or(one)
		}
	}
	return found, demand
}

// dropUnfit removes offers that are too small, whose daemon pods hold a port, or that a filter or a neighbour rules out.
func (m *model) dropUnfit(c *class, set bits) {
	m.market.sizes.keep(set, c.need)
	if len(c.ports)+len(c.hostile)+len(c.blocked)+len(c.rejected) == 0 {
		return
	}
	set.each(func(oi int) {
		if m.daemonPort(c, oi) || m.daemonApart(c, oi) || m.isBlocked(c, oi) || m.rejects(c, oi) {
			set[oi>>6] &^= 1 << (oi & 63)
		}
	})
}

func (m *model) daemonPort(c *class, oi int) bool {
	if len(c.ports) == 0 {
		return false
	}
	for i := range m.daemons {
		if m.daemons[i].fits.has(oi) && portsClash(m.daemons[i].ports, c.ports) {
			return true
		}
	}
	return false
}

func (m *model) hostile(c *class) []hostility {
	var out []hostility
	for i := range m.daemons {
		d := &m.daemons[i]
		if keys := append(m.relations.repelled(c.pod, d.pod), m.relations.repelled(d.pod, c.pod)...); len(keys) > 0 {
			out = append(out, hostility{i, keys})
		}
	}
	return out
}

// repelled are the keys by which required anti-affinity of the pod matches the other one. Pods on one node share all of its domains.
func (re *relations) repelled(pod, other *corev1.Pod) []string {
	if !repels(pod) {
		return nil
	}
	var keys []string
	for _, t := range pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		if r, err := re.termRule(pod, &t, true); err == nil && r.matches(other) {
			keys = append(keys, r.key)
		}
	}
	return keys
}

func (m *model) daemonApart(c *class, oi int) bool {
	return slices.ContainsFunc(c.hostile, func(h hostility) bool {
		return m.daemons[h.daemon].fits.has(oi) && slices.ContainsFunc(h.keys, func(key string) bool { return m.market.bears(oi, key) })
	})
}

// bears says that a node of the offer has the label, or may have it: without it a node is no domain.
func (mk *market) bears(oi int, key string) bool {
	if isHost(key) {
		return true
	}
	if _, ok := mk.label(oi, key); ok {
		return true
	}
	_, open := mk.pools[mk.offers[oi].pool].open[key]
	return open
}

func (m *model) isBlocked(c *class, oi int) bool {
	if len(c.blocked) == 0 {
		return false
	}
	for key, values := range c.blocked {
		if v, ok := m.market.label(oi, key); ok && values[v] {
			return true
		}
	}
	return false
}

// demandOf is the part of the requirements that the pool leaves to the pods, narrowed by what the pool allows.
func demandOf(p *pool, reqs catalog.Requirements) catalog.Requirements {
	var out catalog.Requirements
	for k, s := range reqs {
		if open, ok := p.open[k]; ok {
			if out == nil {
				out = catalog.Requirements{}
			}
			out[k] = open.Intersect(s)
		}
	}
	return out
}

func sameDemand(a, b catalog.Requirements) bool {
	return maps.EqualFunc(a, b, func(x, y catalog.Set) bool { return x.String() == y.String() && x.Absent == y.Absent })
}

// demandsClash says that no label value serves both, or that a third pod could be needed to tell: only equal demands on
// a key may share a node.
func demandsClash(a, b catalog.Requirements) bool {
	for k, s := range a {
		if o, ok := b[k]; ok && (s.String() != o.String() || s.Absent != o.Absent) {
			return true
		}
	}
	return false
}

// matchesOffer says that the rejection speaks of this offer.
func (mk *market) matchesOffer(r *Rejection, oi int) bool {
	o := &mk.offers[oi]
	is := func(want, have string) bool { return want == "" || want == have }
	return is(r.NodePool, mk.pools[o.pool].Name) && is(r.InstanceType, mk.types[o.shape].Name) && is(r.Zone, o.Zone) && is(r.CapacityType, o.CapacityType)
}

// rejects says that a filter does not let the class onto the offer at all.
func (m *model) rejects(c *class, oi int) bool {
	return len(c.rejected) > 0 && slices.ContainsFunc(c.rejected, func(r Rejection) bool { return m.market.matchesOffer(&r, oi) })
}

// plain says that the rejection is of the node itself, not of the company on it.
func (r *Rejection) plain() bool { return r.Node == "" && len(r.With) == 0 && r.MaxPerNode <= 0 }

// applyRejections notes the verdicts that are about the class alone.
func (m *model) applyRejections(c *class) {
	for _, r := range m.in.Rejected {
		switch {
		case r.ClassKey != c.key:
		case r.Node != "":
			c.barred[r.Node] = r.Reason
		case r.MaxPerNode > 0 && (c.perNode == 0 || r.MaxPerNode < c.perNode):
			c.perNode = r.MaxPerNode
		case r.plain():
			c.rejected = append(c.rejected, r)
		}
	}
}

// compileRooms lists the nodes that have room.
func (m *model) compileRooms() {
	for i := range m.in.Nodes {
		n := &m.in.Nodes[i]
		if n.Free == nil {
			continue
		}
		_, inFlight := m.in.Catalog.InFlight[n.Name]
		r := room{node: n, inFlight: inFlight, labels: normalLabels(n), free: m.dims.node(n.Free, n.Attachable), doubtful: m.probation.doubtful(n, m.in.Catalog.InFlight)}
		for _, p := range n.Pods {
			r.ports = append(r.ports, hostPorts(&p.Spec)...)
			r.attach(p.Namespace, p.Spec.Volumes)
		}
		m.rooms = append(m.rooms, r)
	}
	// Nodes that run already come first: their room is there now.
	slices.SortStableFunc(m.rooms, func(a, b room) int {
		if a.inFlight != b.inFlight {
			if b.inFlight {
				return -1
			}
			return 1
		}
		return strings.Compare(a.node.Name, b.node.Name)
	})
}

// admits says whether the room's labels and taints let the class in.
func (r *room) admits(c *class) bool {
	if _, bad := c.barred[r.node.Name]; bad || c.broken != nil || c.lacks != "" {
		return false
	}
	if !c.tolerates(r.node.Taints) || portsClash(r.ports, c.ports) {
		return false
	}
	return slices.ContainsFunc(c.terms, func(t catalog.Requirements) bool {
		_, ok := t.Match(r.labels)
		return ok
	})
}
