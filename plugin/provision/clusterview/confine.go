package clusterview

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/plugin/plan/relations"
)

// confined returns the affinity of a DaemonSet's pod as it counts on nodes where the pod is still to come: its required anti-affinity is about its own
// namespace, but for one that relations.DaemonRepels says counts for all.
func confined(pod *corev1.Pod) *corev1.Affinity {
	a := pod.Spec.Affinity
	if a == nil || a.PodAntiAffinity == nil {
		return a
	}
	required := a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	out, anti := *a, *a.PodAntiAffinity
	out.PodAntiAffinity = &anti
	switch {
	case len(required) > relations.MostTerms:
		anti.RequiredDuringSchedulingIgnoredDuringExecution = nil
	case !relations.DaemonRepels(pod, &corev1.Pod{}):
		anti.RequiredDuringSchedulingIgnoredDuringExecution = nil
		for _, t := range required {
			if !concerns(&t, pod.Namespace) {
				continue
			}
			t.Namespaces, t.NamespaceSelector = nil, nil
			anti.RequiredDuringSchedulingIgnoredDuringExecution = append(anti.RequiredDuringSchedulingIgnoredDuringExecution, t)
		}
	}
	return &out
}

// concerns reports whether the term of a pod of the namespace is surely about that. A selector of namespaces may be or not: what the planner counts of it stands.
func concerns(t *corev1.PodAffinityTerm, namespace string) bool {
	if t.NamespaceSelector == nil && len(t.Namespaces) == 0 || slices.Contains(t.Namespaces, namespace) {
		return true
	}
	all := t.NamespaceSelector
	return all != nil && len(all.MatchLabels)+len(all.MatchExpressions) == 0
}
