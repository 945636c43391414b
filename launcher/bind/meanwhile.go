package bind

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	fwk "k8s.io/kube-scheduler/framework"
)

// Neighbor is another pod that constraints by topology may count.
type Neighbor struct {
	// Pod is bound to a node and has not ended, or is promised to one.
	Pod *corev1.Pod
	// Node is that node. Where a NodeClaim has none yet, it has the labels and taints that the node will have.
	Node *corev1.Node
	// Newcomer means that the pod was bound after the NodeClaim in question was created, and is not where a NodeClaim promises it: no plan knew of it.
	Newcomer bool
	// Anti are the terms of its Wide anti-affinity, if it is bound.
	Anti []fwk.AffinityTerm
}

// NeighborOf returns the pod as a neighbor on its node. Its terms are read once, for all pods that they may keep away.
func NeighborOf(pod *corev1.Pod, node *corev1.Node, newcomer bool) Neighbor {
	n := Neighbor{Pod: pod, Node: node, Newcomer: newcomer}
	if pod.Spec.NodeName != "" {
		_, _, anti := Wide(pod)
		n.Anti, _ = fwk.GetAffinityTerms(pod, anti) // The API server accepts no term that cannot be read.
	}
	return n
}

// Around is what constraints by topology depend on, beside a pod and its node.
type Around struct {
	// Others are the other pods of the namespaces that the constraints name, and all bound pods with Wide anti-affinity. Those that topology spread alone may
	// count are needed only if it Counts a newcomer.
	Others []Neighbor
	// Nodes are those of the cluster.
	Nodes []*corev1.Node
	// Namespaces has the labels of each namespace; needed for terms with a namespaceSelector alone.
	Namespaces map[string]labels.Set
}

// Without returns the same without one pod.
func (a Around) Without(pod *corev1.Pod) Around {
	a.Others = slices.DeleteFunc(slices.Clone(a.Others), func(n Neighbor) bool { return n.Pod.UID == pod.UID })
	return a
}

// Wide returns what a pod requires of topologies that are larger than a node: whether it has topology spread with DoNotSchedule, its terms of pod
// affinity, and those of pod anti-affinity. Which pods are beside it on the node itself was planned, and the node is new.
func Wide(pod *corev1.Pod) (spread bool, affinity, anti []corev1.PodAffinityTerm) {
	spread = slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, hard)
	narrow := func(t corev1.PodAffinityTerm) bool { return t.TopologyKey == corev1.LabelHostname }
	// A pod that all terms match counts for each of them, so that terms by hostname are needed beside others.
	if affinity = fwk.GetPodAffinityTerms(pod.Spec.Affinity); !slices.ContainsFunc(affinity, func(t corev1.PodAffinityTerm) bool { return !narrow(t) }) {
		affinity = nil
	}
	if anti = fwk.GetPodAntiAffinityTerms(pod.Spec.Affinity); slices.ContainsFunc(anti, narrow) {
		anti = slices.DeleteFunc(slices.Clone(anti), narrow)
	}
	return spread, affinity, anti
}

// hard reports whether a constraint is required, of a topology that is larger than a node.
func hard(c corev1.TopologySpreadConstraint) bool {
	return c.WhenUnsatisfiable == corev1.DoNotSchedule && c.TopologyKey != corev1.LabelHostname
}

// Meanwhile returns why a pod may no longer be bound to the node because of pods that were bound since it was planned; "" if it may. It looks at
// constraints by topologies that are larger than a node, and at what kube-scheduler counts for them (pkg/scheduler/framework/plugins: podtopologyspread,
// interpodaffinity), with one difference: pods that are promised, and not bound yet, count for topology spread where they will be, since the plan has
// spread all of them together.
func Meanwhile(pod *corev1.Pod, node *corev1.Node, around Around) string {
	_, affinity, anti := Wide(pod)
	for i := range pod.Spec.TopologySpreadConstraints {
		if c := &pod.Spec.TopologySpreadConstraints[i]; hard(*c) {
			if why := around.skewed(pod, node, c); why != "" {
				return why
			}
		}
	}
	if other := around.repelled(pod, node, anti); other != nil {
		return fmt.Sprintf("its anti-affinity keeps it apart from pod %s/%s, which is bound", other.Namespace, other.Name)
	}
	if other := around.repelling(pod, node); other != nil {
		return fmt.Sprintf("the anti-affinity of pod %s/%s, which is bound, keeps it away", other.Namespace, other.Name)
	}
	return around.parted(pod, node, affinity)
}

// except returns the others without the pod itself.
func (a Around) except(pod *corev1.Pod) iter.Seq[Neighbor] {
	return func(yield func(Neighbor) bool) {
		for _, n := range a.Others {
			if n.Pod.UID != pod.UID && !yield(n) {
				return
			}
		}
	}
}

// tally is what a constraint of topology spread counts for a pod.
type tally struct {
	namespace, key string
	// selector is which pods it selects, and included which nodes.
	selector labels.Selector
	included func(*corev1.Node) bool
}

func tallyOf(pod *corev1.Pod, c *corev1.TopologySpreadConstraint) (tally, error) {
	selector, err := spreadSelector(pod, c)
	return tally{namespace: pod.Namespace, key: c.TopologyKey, selector: selector, included: inclusion(pod, c)}, err
}

// counts reports whether a neighbor counts.
func (t tally) counts(n Neighbor) bool {
	leaving := !n.Pod.DeletionTimestamp.IsZero()
	return n.Pod.Namespace == t.namespace && !leaving && !t.selector.Empty() && t.selector.Matches(labels.Set(n.Pod.Labels)) && t.included(n.Node)
}

// Counts reports whether a topology spread of the pod counts one of the newcomers in the domain of the node. Where none does, Meanwhile needs no others
// for topology spread: the plan holds.
func Counts(pod *corev1.Pod, node *corev1.Node, newcomers []Neighbor) bool {
	return slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
		if !hard(c) {
			return false
		}
		t, err := tallyOf(pod, &c) // Meanwhile says what cannot be read.
		return err == nil && Around{Others: newcomers}.newcomer(pod, node, t) != ""
	})
}

// skewed returns why one more pod on the node would break a constraint, if a newcomer is in its domain. Without one, the plan holds.
func (a Around) skewed(pod *corev1.Pod, node *corev1.Node, c *corev1.TopologySpreadConstraint) string {
	t, err := tallyOf(pod, c)
	if err != nil {
		return "its topology spread cannot be read: " + err.Error()
	}
	newcomer := a.newcomer(pod, node, t)
	if newcomer == "" {
		return ""
	}
	domains, here := a.domains(pod, t), node.Labels[c.TopologyKey]
	least := slices.Min(slices.Collect(maps.Values(domains)))
	if c.MinDomains != nil && len(domains) < int(*c.MinDomains) {
		least = 0
	}
	skew := domains[here] - least
	if t.selector.Matches(labels.Set(pod.Labels)) {
		skew++
	}
	if skew <= int(c.MaxSkew) {
		return ""
	}
	return fmt.Sprintf("pod %s was bound in %s meanwhile: topology spread over %s would have a skew of %d, %d at most", newcomer, here, c.TopologyKey, skew, c.MaxSkew)
}

// newcomer returns the name of one that counts in the domain of the node; empty if there is none.
func (a Around) newcomer(pod *corev1.Pod, node *corev1.Node, t tally) string {
	for n := range a.except(pod) {
		if n.Newcomer && n.Node.Labels[t.key] == node.Labels[t.key] && t.counts(n) {
			return n.Pod.Name
		}
	}
	return ""
}

// domains counts the pods of each domain of a topology, of which those without pods have nodes that are included.
func (a Around) domains(pod *corev1.Pod, t tally) map[string]int {
	out := map[string]int{}
	for n := range a.except(pod) {
		if t.counts(n) {
			out[n.Node.Labels[t.key]]++
		}
	}
	for _, node := range a.Nodes {
		if t.included(node) {
			out[node.Labels[t.key]] += 0
		}
	}
	return out
}

// spreadSelector returns which pods a constraint counts.
func spreadSelector(pod *corev1.Pod, c *corev1.TopologySpreadConstraint) (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
	if err != nil {
		return nil, err
	}
	requirements, selectable := selector.Requirements()
	if !selectable {
		return selector, nil
	}
	same := labels.Set{}
	for _, key := range c.MatchLabelKeys {
		if value, ok := pod.Labels[key]; ok {
			same[key] = value
		}
	}
	return labels.SelectorFromSet(same).Add(requirements...), nil
}

// inclusion returns which nodes a constraint counts, by its policies and their defaults: those that have the labels of all hard constraints of the pod. A hostname is
// the last label that a Node gets, and each has one.
func inclusion(pod *corev1.Pod, c *corev1.TopologySpreadConstraint) func(*corev1.Node) bool {
	affinity := nodeaffinity.GetRequiredNodeAffinity(pod)
	anyLabels := c.NodeAffinityPolicy != nil && *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyIgnore
	tolerated := c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor
	lacks := func(node *corev1.Node) bool {
		return slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(other corev1.TopologySpreadConstraint) bool {
			_, has := node.Labels[other.TopologyKey]
			return hard(other) && !has
		})
	}
	return func(node *corev1.Node) bool {
		if lacks(node) {
			return false
		}
		match, err := affinity.Match(node)
		return (anyLabels || match && err == nil) && (!tolerated || blocking(pod, node.Spec.Taints) == "")
	}
}

// together reports whether two nodes are in one domain of a topology.
func together(a, b *corev1.Node, key string) bool {
	in, ok := a.Labels[key]
	other, also := b.Labels[key]
	return ok && also && in == other
}

// matchesAll reports whether a pod matches all terms.
func (a Around) matchesAll(pod *corev1.Pod, terms []fwk.AffinityTerm) bool {
	return !slices.ContainsFunc(terms, func(t fwk.AffinityTerm) bool { return !t.Matches(pod, a.Namespaces[pod.Namespace]) })
}

// near returns whether a pod on a node of its own matches one of the terms and is in the same domain as the node.
func (a Around) near(pod *corev1.Pod, its, node *corev1.Node, terms []fwk.AffinityTerm) bool {
	return slices.ContainsFunc(terms, func(t fwk.AffinityTerm) bool {
		return together(its, node, t.TopologyKey) && t.Matches(pod, a.Namespaces[pod.Namespace])
	})
}

// repelled returns a bound pod from which the pod's terms of anti-affinity keep it apart; nil if there is none.
func (a Around) repelled(pod *corev1.Pod, node *corev1.Node, anti []corev1.PodAffinityTerm) *corev1.Pod {
	terms, err := fwk.GetAffinityTerms(pod, anti)
	if err != nil || len(terms) == 0 {
		return nil // The API server accepts no term that cannot be read.
	}
	for n := range a.except(pod) {
		if n.Pod.Spec.NodeName != "" && a.near(n.Pod, n.Node, node, terms) {
			return n.Pod
		}
	}
	return nil
}

// repelling returns a bound pod whose anti-affinity keeps the pod away; nil if there is none.
func (a Around) repelling(pod *corev1.Pod, node *corev1.Node) *corev1.Pod {
	for n := range a.except(pod) {
		if a.near(pod, n.Node, node, n.Anti) {
			return n.Pod
		}
	}
	return nil
}

// parted returns why the pod's required affinity keeps it away from the node: a pod that it must be beside is bound in another domain, and none in this
// one. A promised pod counts here, unless it has to be beside the same pods as this one and would be refused as well.
func (a Around) parted(pod *corev1.Pod, node *corev1.Node, affinity []corev1.PodAffinityTerm) string {
	terms, err := fwk.GetAffinityTerms(pod, affinity)
	if err != nil || len(terms) == 0 {
		return ""
	}
	ofGroup := a.matchesAll(pod, terms)
	for _, t := range terms {
		here, elsewhere := t.TopologyKey == corev1.LabelHostname, ""
		for n := range a.except(pod) {
			bound := n.Pod.Spec.NodeName != ""
			if here || !bound && ofGroup || !a.matchesAll(n.Pod, terms) {
				continue
			}
			here = together(n.Node, node, t.TopologyKey)
			if bound && !here {
				elsewhere = cmp.Or(n.Node.Labels[t.TopologyKey], elsewhere)
			}
		}
		if !here && elsewhere != "" {
			return "the pods that its affinity requires beside it are bound in " + elsewhere
		}
	}
	return ""
}
