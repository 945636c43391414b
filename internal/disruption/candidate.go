package disruption

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Candidate is a node that may be disrupted, and its objects, at one moment.
type Candidate struct {
	// Now is that moment.
	Now time.Time
	// Claim is the node's NodeClaim.
	Claim *karpv1.NodeClaim
	// Node is the Node object.
	Node *corev1.Node
	// Pool is the NodePool; nil where there is none.
	Pool *karpv1.NodePool
	// Pods are bound to the node.
	Pods []*corev1.Pod
	// DisruptBare means that pods without a controller do not keep the node. They end with it, and nothing creates them again.
	DisruptBare bool
}

// cordoned reports whether the node accepts no new pods, because of the disruption taint or kubectl cordon.
func cordoned(node *corev1.Node) bool {
	return node.Spec.Unschedulable || Tainted(node)
}

// Tainted reports whether the node has the disruption taint.
func Tainted(node *corev1.Node) bool {
	for _, t := range node.Spec.Taints {
		if t.Key == karpv1.DisruptedTaintKey {
			return true
		}
	}
	return false
}
