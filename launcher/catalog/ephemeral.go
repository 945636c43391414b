package catalog

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// EphemeralTaint reports whether a taint of this key is one that a controller of Kubernetes removes while its node starts: that of a node that is not
// Ready, that of the cloud controller manager, or one of the Node Readiness Controller, whose keys end in the name of a rule (Karpenter, pkg/scheduling,
// KnownEphemeralTaints and KnownEphemeralTaintKeyPrefixes).
func EphemeralTaint(key string) bool {
	switch key {
	case corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, "node.cloudprovider.kubernetes.io/uninitialized":
		return true
	}
	return strings.HasPrefix(key, "readiness.k8s.io/")
}

// LastingTaints returns the taints that a registered Node will have once it is initialized: those that it has, without those of its start, which are the startup
// taints of its NodeClaim, the launcher's own and those of Kubernetes. The effects of startup taints do not matter: an agent may add its taint with another one
// than its users give the NodePool. A cordon is among them, whether or not kube-controller-manager has added its taint.
func LastingTaints(node *corev1.Node, startup []corev1.Taint) []corev1.Taint {
	out := slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool {
		return t.Key == StartingTaintKey || t.Key == corev1.TaintNodeNetworkUnavailable || EphemeralTaint(t.Key) ||
			slices.ContainsFunc(startup, func(s corev1.Taint) bool { return s.Key == t.Key })
	})
	cordoned := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	if node.Spec.Unschedulable && !slices.ContainsFunc(out, func(t corev1.Taint) bool { return t.MatchTaint(&cordoned) }) {
		out = append(out, cordoned)
	}
	return out
}
