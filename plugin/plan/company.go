package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// nodeRule limits who shares a node: where a pod of the subject is, at most limit pods of the members are.
type nodeRule struct {
	// key of the label without which a node is not concerned; empty for all nodes.
	key     string
	subject int
	members bits
	limit   int
}

// compileNodeRules turns spread by hostname, anti-affinity by any key, host ports and the filters' verdicts into node rules.
// A spread over hosts limits a node because a new one, empty, could be launched any time; where that is not so, it does not.
func (m *model) compileNodeRules() {
	for i := range m.relations.rules {
		r := &m.relations.rules[i]
		// Pods on one node share all domains: who may not share a zone may not share a node either.
		if r.closed || r.kind == affinity || r.kind == attended || r.kind == spread && r.key != corev1.LabelHostname {
			continue
		}
		if r.kind == antiAffinity && !m.canHave(r.key) {
			continue // A node without the label is no domain.
		}
		n := nodeRule{key: r.key, subject: r.owner, members: r.classes, limit: r.maxSkew}
		if r.kind == antiAffinity && r.classes.has(r.owner) {
			n.limit = 1
		}
		m.nodeRules = append(m.nodeRules, n)
	}
	for ci := range m.classes {
		c := &m.classes[ci]
		if c.perNode > 0 {
			self := newBits(len(m.classes))
			self.set(ci)
			m.nodeRules = append(m.nodeRules, nodeRule{subject: ci, members: self, limit: c.perNode})
		}
		if len(c.ports) > 0 {
			m.pairRule(ci, func(o *class) bool { return portsClash(c.ports, o.ports) })
		}
	}
	m.keepApart()
}

// keepApart turns the filters' verdicts on classes that share a node into node rules.
func (m *model) keepApart() {
	index := make(map[string][]int, len(m.classes))
	apart := map[string]map[string]bool{}
	note := func(a, b string) {
		if apart[a] == nil {
			apart[a] = map[string]bool{}
		}
		apart[a][b] = true
	}
	for _, r := range m.in.Rejected {
		for _, other := range r.With {
			note(r.ClassKey, other)
			note(other, r.ClassKey)
		}
	}
	if len(apart) == 0 {
		return
	}
	for ci := range m.classes {
		index[m.classes[ci].key] = append(index[m.classes[ci].key], ci)
	}
	for ci := range m.classes {
		n := nodeRule{subject: ci, members: newBits(len(m.classes))}
		for other := range apart[m.classes[ci].key] {
			for _, oi := range index[other] {
				n.members.set(oi)
			}
		}
		m.nodeRules = n.appendTo(m.nodeRules)
	}
}

// pairRule keeps pods of the class off those that clash with it, their own kind included.
func (m *model) pairRule(ci int, clash func(*class) bool) {
	n := nodeRule{subject: ci, members: newBits(len(m.classes))}
	for oi := range m.classes {
		if clash(&m.classes[oi]) {
			n.members.set(oi)
		}
	}
	m.nodeRules = n.appendTo(m.nodeRules)
}

// appendTo adds a rule that keeps pods of the subject off those of the members, its own kind included, if there are any.
func (n nodeRule) appendTo(rules []nodeRule) []nodeRule {
	if n.members.has(n.subject) {
		n.limit = 1
	}
	if n.members.empty() {
		return rules
	}
	return append(rules, n)
}

// canHave reports whether new nodes or those with room may have the label.
func (m *model) canHave(key string) bool {
	return m.market.newLabels[key] || slices.ContainsFunc(m.rooms, func(r room) bool { _, ok := r.labels[key]; return ok })
}

// company says that pods of the parts may share one new node.
func (m *model) company(parts []part) bool {
	return m.companyAt(parts, func(string) (string, bool) { return "", true })
}

// companyAt says that pods of the parts may share the node with these labels.
func (m *model) companyAt(parts []part, at lookup) bool {
	for _, r := range m.nodeRules {
		if _, ok := at(r.key); r.key != "" && !ok {
			continue
		}
		subject, members := false, 0
		for _, p := range parts {
			subject = subject || p.class == r.subject && p.n > 0
			if r.members.has(p.class) {
				members += p.n
			}
		}
		if subject && members > r.limit {
			return false
		}
	}
	return true
}
