package join

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
)

func joinedAt(node *corev1.Node) time.Time {
	if c := conditions.Ready(node); c != nil {
		return c.LastTransitionTime.Time
	}
	return node.CreationTimestamp.Time
}

// takes reports whether the Node that a claim names is its own: its instance's, or not known yet to be that of another.
func takes(claim *karpv1.NodeClaim, named *corev1.Node) bool {
	return named.Spec.ProviderID == "" || named.Spec.ProviderID == claim.Status.ProviderID
}

// registeredNode reports whether the Node was registered. The Node and the claim both record it: the cache may show one of them old and the
// other new, and removed taints must not come back.
func registeredNode(node *corev1.Node) bool {
	return node.Labels[karpv1.NodeRegisteredLabelKey] == "true"
}

func hasTaint(node *corev1.Node, key string) bool {
	for _, t := range node.Spec.Taints {
		if t.Key == key {
			return true
		}
	}
	return false
}

// networkLate reports whether the kubelet runs and its network is not ready (pkg/kubelet/nodestatus/setters.go).
func networkLate(node *corev1.Node) bool {
	c := conditions.Posted(node)
	return c != nil && c.Status != corev1.ConditionTrue &&
		(strings.Contains(c.Message, "network not ready") || strings.Contains(c.Message, "NetworkReady=false"))
}
