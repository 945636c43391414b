package relations

import (
	"slices"

	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
)

// NodeRule limits which pods share a node: where a pod of the subject is, at most Limit pods of the members are.
type NodeRule struct {
	// Key of the label without which a node is not concerned; empty for all nodes.
	Key string
	// Subject is the class whose pods are kept.
	Subject int
	// Members are the classes whose pods count.
	Members bitset.Set
	// Limit is how many pods of the members there may be; 0 for none.
	Limit int
}

// NodeRules are the limits of one node.
type NodeRules []NodeRule

// NodeRules returns spread by hostname and anti-affinity by any key that nodes may have as limits of one node. A spread over hosts limits a
// node because a new one, empty, could be launched any time; where that is not so, it is closed and limits none.
func (re *Relations) NodeRules(canHave func(key string) bool) NodeRules {
	var out NodeRules
	for i := range re.rules {
		r := &re.rules[i]
		// Pods on one node share all domains: those that may not share a zone may not share a node either.
		if r.closed || r.kind == Affinity || r.kind == DaemonAffinity || r.kind == Spread && !isHost(r.key) {
			continue
		}
		if r.kind == AntiAffinity && !canHave(r.key) {
			continue // A node without the label is no domain.
		}
		n := NodeRule{Key: r.key, Subject: r.owner, Members: r.classes, Limit: r.maxSkew}
		if r.kind == AntiAffinity && r.classes.Has(r.owner) {
			n.Limit = 1
		}
		out = append(out, n)
	}
	return out
}

// KeepApart returns the rules and one more that keeps pods of the subject off those of the members, its own kind included, if there are
// any members.
func (l NodeRules) KeepApart(subject int, members bitset.Set) NodeRules {
	if members.Empty() {
		return l
	}
	n := NodeRule{Subject: subject, Members: members}
	if members.Has(subject) {
		n.Limit = 1
	}
	return append(l, n)
}

// Permit reports whether pods of the parts may share the node with these labels.
func (l NodeRules) Permit(parts []Part, at Lookup) bool {
	return !slices.ContainsFunc(l, func(r NodeRule) bool {
		if _, ok := at(r.Key); r.Key != "" && !ok {
			return false
		}
		subject, members := false, 0
		for _, p := range parts {
			subject = subject || p.Class == r.Subject && p.N > 0
			if r.Members.Has(p.Class) {
				members += p.N
			}
		}
		return subject && members > r.Limit
	})
}
