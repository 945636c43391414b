package catalog

import (
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
