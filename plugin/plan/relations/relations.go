package relations

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MostTerms is how many required terms of one kind a pod may have: each is compared with all pods of the batch and of the cluster. The API server takes as
// many as are in a megabyte.
const MostTerms = 128

// Relations are the constraints between the pods of the classes, and between them and those that exist, with the pods that they count. New
// makes them; AddDomains, MeetByDaemons and SetClosed of their rules complete them with what can be launched, and Index ends that.
type Relations struct {
	in       Input
	peers    peers
	rules    []Rule
	concerns []concern
	// blocked are the places that pods that exist forbid, by class.
	blocked []Blocked
	// hosts are the spreads over hosts that are closed, by index.
	hosts []int
}

// Blocked are values of labels where pods that exist have anti-affinity to a class, by key.
type Blocked map[string]map[string]bool

// Forbids reports whether the place is among them.
func (b Blocked) Forbids(at Lookup) bool {
	for key, values := range b {
		if v, ok := at(key); ok && values[v] {
			return true
		}
	}
	return false
}

// Rules returns the rules of all classes, for the caller to complete and to explain. The slice is not to be changed.
func (re *Relations) Rules() []Rule { return re.rules }

// Blocked returns where pods that exist forbid pods of the class; nil for nowhere.
func (re *Relations) Blocked(ci int) Blocked { return re.blocked[ci] }

// Keys returns the label keys, hostname apart, that matter for where pods of the class go, sorted.
func (re *Relations) Keys(ci int) []string { return re.concerns[ci].keys }

// KeysOf returns the label keys that matter to any of the parts.
func (re *Relations) KeysOf(parts []Part) []string {
	var keys []string
	for _, p := range parts {
		for _, k := range re.Keys(p.Class) {
			if !slices.Contains(keys, k) {
				keys = append(keys, k)
			}
		}
	}
	return keys
}

// Outranks reports whether pods of the class are more important than those of the other, which may not upset their spread.
func (re *Relations) Outranks(ci, other int) bool {
	return re.in.Classes[ci].Priority > re.in.Classes[other].Priority
}

// AffinityTerm returns the term of a pod's affinity or anti-affinity. Where labels of namespaces are not known, a namespaceSelector is read
// as all namespaces if careful, as none otherwise. It returns an error for a selector that is not valid.
func (re *Relations) AffinityTerm(pod *corev1.Pod, t *corev1.PodAffinityTerm, careful bool) (Term, error) {
	return re.in.affinityTerm(pod, t, careful)
}

// Repelling returns the terms of the pod's required anti-affinity, without those whose selectors are not valid.
func (re *Relations) Repelling(pod *corev1.Pod) []Term {
	if !repels(pod) {
		return nil
	}
	var out []Term
	for i := range pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution {
		if t, err := re.in.affinityTerm(pod, &pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[i], true); err == nil {
			out = append(out, t)
		}
	}
	return out
}

// Repelled returns the keys of the terms that match the pod. Pods on one node share all of its domains.
func Repelled(terms []Term, pod *corev1.Pod) []string {
	var keys []string
	for i := range terms {
		if terms[i].Matches(pod) {
			keys = append(keys, terms[i].key)
		}
	}
	return keys
}

// DaemonRepels reports whether required anti-affinity of a DaemonSet's pod may keep the other pod off new nodes: within its namespace, and that of a
// DaemonSet of kube-system everywhere. Others that may edit one namespace would decide over all of them, also with pods that a quota refuses; the daemon's pod
// waits instead. Its priority says nothing: each namespace may use system-cluster-critical.
func DaemonRepels(daemon, other *corev1.Pod) bool {
	return daemon.Namespace == other.Namespace || daemon.Namespace == metav1.NamespaceSystem
}

// Repulsed reports whether anti-affinity by one of the labels is about pods of the class: their own, that of other classes, or that of pods that exist.
func Repulsed(re *Relations, ci int, by func(key string) bool) bool {
	c := &re.concerns[ci]
	return slices.ContainsFunc(c.owned, func(i int) bool { return re.rules[i].kind == AntiAffinity && by(re.rules[i].key) }) ||
		slices.ContainsFunc(c.avoids, func(r *Rule) bool { return by(r.key) }) ||
		slices.ContainsFunc(slices.Collect(maps.Keys(re.blocked[ci])), by)
}

// repels reports whether the pod has anti-affinity.
func repels(p *corev1.Pod) bool {
	return p.Spec.Affinity != nil && p.Spec.Affinity.PodAntiAffinity != nil
}
