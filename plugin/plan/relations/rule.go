package relations

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
)

// Kind is the kind of a rule between pods.
type Kind int

// The kinds of rules.
const (
	// Spread is a topology spread constraint.
	Spread Kind = iota + 1
	// Affinity is a required term of pod affinity.
	Affinity
	// AntiAffinity is a required term of pod anti-affinity.
	AntiAffinity
	// DaemonAffinity is affinity to pods that a DaemonSet brings to every new node of the class: only nodes that exist may
	// lack them.
	DaemonAffinity
)

// Rule is one constraint between pods: of the owner class, about the pods that its term matches, per value of its key.
type Rule struct {
	Term
	// The pods that the term matches.
	matched
	// The matching pods by domain.
	*topologyCounts
	// owners are the owner's pods by domain.
	owners map[string]int
	// domains of a spread: values of nodes that exist or that could be launched.
	domains map[string]bool
	policy  corev1.TopologySpreadConstraint
	kind    Kind
	owner   int
	// maxSkew and minDomains are of a spread.
	maxSkew, minDomains int
	// soft is a spread that is a preference: only domains that its own pods can be launched into count.
	soft   bool
	closed bool
}

// matched are the groups of pods and the classes that a term matches. They are shared, and not changed.
type matched struct{ groups, classes bitset.Set }

// topologyCounts is how many pods rules count by the values of their key. Rules that count the same pods share one.
type topologyCounts struct {
	counts map[string]int
	total  int
	// label is the key.
	label string
	// rules is how many share it.
	rules int
}

// Kind returns which kind of rule it is.
func (r *Rule) Kind() Kind { return r.kind }

// Owner returns the class whose pods have the constraint.
func (r *Rule) Owner() int { return r.owner }

// Counts reports whether the rule counts pods of the class.
func (r *Rule) Counts(ci int) bool { return r.classes.Has(ci) }

// MaxSkew returns that of a spread.
func (r *Rule) MaxSkew() int { return r.maxSkew }

// MinDomains returns that of a spread; 1 for none.
func (r *Rule) MinDomains() int { return r.minDomains }

// Soft reports whether it is a spread that is a preference.
func (r *Rule) Soft() bool { return r.soft }

// OverHosts reports whether the domains of the rule are single nodes.
func (r *Rule) OverHosts() bool { return isHost(r.key) }

// Total returns how many pods that the rule counts are placed, those that exist included.
func (r *Rule) Total() int { return r.total }

// HasOwners reports whether pods of the owner are placed.
func (r *Rule) HasOwners() bool { return len(r.owners) > 0 }

// HonorsTaints reports whether a spread counts only nodes whose taints its pods tolerate (KEP-3094).
func (r *Rule) HonorsTaints() bool {
	p := r.policy.NodeTaintsPolicy
	return p != nil && *p == corev1.NodeInclusionPolicyHonor
}

// HonorsAffinity reports whether a spread counts only nodes that its pods' node affinity allows (KEP-3094).
func (r *Rule) HonorsAffinity() bool {
	p := r.policy.NodeAffinityPolicy
	return p == nil || *p != corev1.NodeInclusionPolicyIgnore
}

// MeetByDaemons makes affinity one that daemon pods meet on every new node of the class.
func (r *Rule) MeetByDaemons() { r.kind = DaemonAffinity }

// AddDomains adds domains that new nodes open to a spread.
func (r *Rule) AddDomains(values map[string]bool) { maps.Copy(r.domains, values) }

// SetClosed says whether only nodes that exist count for a spread over hosts, because its pods can be launched nowhere. In a lower
// bound, it is also set for what limits no node because nodes may be without the label.
func (r *Rule) SetClosed(closed bool) { r.closed = closed }

// DomainCount is how many pods of a rule a domain has.
type DomainCount struct {
	// Value of the rule's key.
	Value string
	// Pods that the rule counts.
	Pods int
}

// Domains returns the domains of the rule and those with pods that it counts, in the order of their values.
func (r *Rule) Domains() []DomainCount {
	values := maps.Clone(r.domains)
	for v := range r.counts {
		values[v] = true
	}
	var out []DomainCount
	for _, v := range slices.Sorted(maps.Keys(values)) {
		out = append(out, DomainCount{v, r.counts[v]})
	}
	return out
}

// isHost reports whether each node has a value of the label of its own.
func isHost(key string) bool { return key == corev1.LabelHostname }

// staysEven reports whether n pods more in the domain leave the spread as even as its owner's pods require where they are.
func (r *Rule) staysEven(v string, n int) bool {
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

// allows reports whether the rule allows the pods in the domain v, or without a domain if not ok.
func (r *Rule) allows(p Part, v string, ok bool) bool {
	self := 0
	if r.classes.Has(p.Class) {
		self = p.N
	}
	switch r.kind {
	case Spread:
		return ok && r.counts[v]+self-r.least(v, self-1) <= r.maxSkew
	case Affinity, DaemonAffinity:
		return ok && (r.counts[v] > 0 || r.total == 0 && self > 0)
	case AntiAffinity:
		if !ok {
			return true
		}
		return (r.owner != p.Class || r.counts[v] == 0 && self <= 1) && (self == 0 || r.owners[v] == 0)
	}
	return true
}

// least returns the global minimum of a spread, when n more pods are in the domain v. By hostname it is taken as zero where
// a node can be launched.
func (r *Rule) least(v string, n int) int {
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

// over returns how many of the owner's pods, up to n, break the rule.
func (r *Rule) over(n int) int {
	over := 0
	switch r.kind {
	case Spread:
		least := r.least("", 0)
		for v, c := range r.counts {
			if r.owners[v] > 0 {
				over += max(c-least-r.maxSkew, 0)
			}
		}
	case Affinity:
		for v, c := range r.owners {
			if c > 0 && r.counts[v] == 0 {
				over += c
			}
		}
	case AntiAffinity, DaemonAffinity:
	}
	return min(over, n)
}
