package catalog

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
)

// WithRequested returns a list without the resources that a node has only if its NodeClaim requests them: Elastic Fabric Adapters. Every type
// with EFA offers them, and a node is launched with them if a pod needs one. The list is not changed.
func WithRequested(list, requests corev1.ResourceList) corev1.ResourceList {
	if q := requests[ResourceEFA]; !q.IsZero() {
		return list
	}
	if _, ok := list[ResourceEFA]; !ok {
		return list
	}
	out := maps.Clone(list)
	delete(out, ResourceEFA)
	return out
}
