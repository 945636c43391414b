package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
)

// nodeRule limits who shares a node: where a pod of the subject is, at most limit pods of the members are.
type nodeRule struct {
	// key of the label without which a node is not concerned; empty for all nodes.
	key     string
	subject int
	members bitset.Set
	limit   int
}

// compileNodeRules turns spread by hostname, anti-affinity by any key, host ports and the filters' verdicts into node rules.
// A spread over hosts limits a node because a new one, empty, could be launched any time; where that is not so, it does not.
func (co *colocation) compileNodeRules() {
	for i := range co.relations.rules {
		r := &co.relations.rules[i]
		// Pods on one node share all domains: who may not share a zone may not share a node either.
		if r.closed || r.kind == affinity || r.kind == attended || r.kind == spread && r.key != corev1.LabelHostname {
			continue
		}
		if r.kind == antiAffinity && !co.canHave(r.key) {
			continue // A node without the label is no domain.
		}
		n := nodeRule{key: r.key, subject: r.owner, members: r.classes, limit: r.maxSkew}
		if r.kind == antiAffinity && r.classes.Has(r.owner) {
			n.limit = 1
		}
		co.nodeRules = append(co.nodeRules, n)
	}
	for ci := range co.classes {
		c := &co.classes[ci]
		if c.perNode > 0 {
			self := bitset.New(len(co.classes))
			self.Add(ci)
			co.nodeRules = append(co.nodeRules, nodeRule{subject: ci, members: self, limit: c.perNode})
		}
	}
	co.keepPortsApart()
	co.keepApart()
}

// keepPortsApart turns host ports into node rules.
func (co *colocation) keepPortsApart() {
	var index *portIndex
	for ci := range co.classes {
		c := &co.classes[ci]
		if len(c.ports) == 0 || co.in.budget.Cancelled() {
			continue
		}
		if index == nil {
			index = newPortIndex(co.classes)
		}
		n := nodeRule{subject: ci, members: index.clashing(c.ports)}
		co.nodeRules = n.appendTo(co.nodeRules)
	}
}

// keepApart turns the filters' verdicts on classes that share a node into node rules.
func (co *colocation) keepApart() {
	index := make(map[string][]int, len(co.classes))
	apart := map[string]map[string]bool{}
	note := func(a, b string) {
		if apart[a] == nil {
			apart[a] = map[string]bool{}
		}
		apart[a][b] = true
	}
	for _, r := range co.in.Rejected {
		for _, other := range r.With {
			note(r.ClassKey, other)
			note(other, r.ClassKey)
		}
	}
	if len(apart) == 0 {
		return
	}
	for ci := range co.classes {
		index[co.classes[ci].key] = append(index[co.classes[ci].key], ci)
	}
	for ci := range co.classes {
		n := nodeRule{subject: ci, members: bitset.New(len(co.classes))}
		for other := range apart[co.classes[ci].key] {
			for _, oi := range index[other] {
				n.members.Add(oi)
			}
		}
		co.nodeRules = n.appendTo(co.nodeRules)
	}
}

// appendTo adds a rule that keeps pods of the subject off those of the members, its own kind included, if there are any.
func (n nodeRule) appendTo(rules []nodeRule) []nodeRule {
	if n.members.Has(n.subject) {
		n.limit = 1
	}
	if n.members.Empty() {
		return rules
	}
	return append(rules, n)
}

// canHave reports whether new nodes or those with room may have the label.
func (co *colocation) canHave(key string) bool {
	return co.market.newLabels[key] || slices.ContainsFunc(co.rooms, func(r room) bool { _, ok := r.labels[key]; return ok })
}

// company says that pods of the parts may share one new node.
func (co *colocation) company(parts []part) bool {
	return co.companyAt(parts, func(string) (string, bool) { return "", true })
}

// companyAt says that pods of the parts may share the node with these labels.
func (co *colocation) companyAt(parts []part, at lookup) bool {
	for _, r := range co.nodeRules {
		if _, ok := at(r.key); r.key != "" && !ok {
			continue
		}
		subject, members := false, 0
		for _, p := range parts {
			subject = subject || p.class == r.subject && p.n > 0
			if r.members.Has(p.class) {
				members += p.n
			}
		}
		if subject && members > r.limit {
			return false
		}
	}
	return true
}
