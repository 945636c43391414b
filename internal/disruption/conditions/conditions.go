// Package conditions reads the status conditions of Nodes, Pods, NodeClaims and NodePools.
//
// It only reads, as objects of a cache need it: Karpenter's StatusConditions writes the conditions that are missing. It is
// pure.
package conditions

import (
	"github.com/awslabs/operatorpkg/status"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// neverUpdated is the reason of the condition Ready that the node lifecycle controller writes where no kubelet has posted one
// (pkg/controller/nodelifecycle/node_lifecycle_controller.go).
const neverUpdated = "NodeStatusNeverUpdated"

// Ready returns the condition Ready of the node; nil where it has none.
func Ready(node *corev1.Node) *corev1.NodeCondition {
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == corev1.NodeReady {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}

// Posted returns the condition Ready that a kubelet has posted, whatever its status; nil where no kubelet has.
func Posted(node *corev1.Node) *corev1.NodeCondition {
	if c := Ready(node); c != nil && c.Reason != neverUpdated {
		return c
	}
	return nil
}

// NodeReady reports whether the node's condition Ready is True.
func NodeReady(node *corev1.Node) bool {
	c := Ready(node)
	return c != nil && c.Status == corev1.ConditionTrue
}

// Pod returns a condition of the pod; nil where it has none of the type.
func Pod(pod *corev1.Pod, condition corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == condition {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// PodIs reports whether a condition of the pod is True.
func PodIs(pod *corev1.Pod, condition corev1.PodConditionType) bool {
	c := Pod(pod, condition)
	return c != nil && c.Status == corev1.ConditionTrue
}

// Claim returns a condition of the NodeClaim; nil where it has none of the type.
func Claim(claim *karpv1.NodeClaim, condition string) *status.Condition {
	return find(claim.Status.Conditions, condition)
}

// ClaimIs reports whether a condition of the NodeClaim is True.
func ClaimIs(claim *karpv1.NodeClaim, condition string) bool {
	return Claim(claim, condition).IsTrue()
}

// InFlight reports whether the NodeClaim's node is in flight: not initialized, and not terminating. It changes nothing of the NodeClaim, which may be a cache's.
func InFlight(claim *karpv1.NodeClaim) bool {
	return claim.DeletionTimestamp.IsZero() && !ClaimIs(claim, karpv1.ConditionTypeInitialized)
}

// PoolReady reports whether the NodePool is Ready.
func PoolReady(pool *karpv1.NodePool) bool {
	return find(pool.Status.Conditions, status.ConditionReady).IsTrue()
}

func find(list []status.Condition, condition string) *status.Condition {
	for i := range list {
		if list[i].Type == condition {
			return &list[i]
		}
	}
	return nil
}
