package plugin

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// pinned says why no new node can take the pod, by its spec alone; empty if one might. A DaemonSet's pod belongs to a
// node that exists.
func (p *Plugin) pinned(pod *corev1.Pod) string {
	if ownedByDaemonSet(pod) {
		return "a DaemonSet's pod runs on the node it was made for"
	}
	if name, ok := nodeByName(pod); ok {
		return "the pod is pinned to node " + name
	}
	if len(pod.Spec.ResourceClaims) > 0 {
		return "pods with resourceClaims run on existing nodes only, so far"
	}
	return ""
}

// nodeByName returns the node's name that each of the pod's required node selector terms asks for.
func nodeByName(pod *corev1.Pod) (string, bool) {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil ||
		pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return "", false
	}
	terms := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	name := ""
	for _, t := range terms {
		i := slices.IndexFunc(t.MatchFields, func(r corev1.NodeSelectorRequirement) bool {
			return r.Key == "metadata.name" && r.Operator == corev1.NodeSelectorOpIn && len(r.Values) > 0
		})
		if i < 0 {
			return "", false
		}
		name = t.MatchFields[i].Values[0]
	}
	return name, name != ""
}
