package view

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
)

const (
	// slow is the age from which a node that is not ready has a reason. Most nodes are ready before.
	slow = time.Minute
	// unhandled is the age from which a pod without a word of any scheduler is taken for one that none serves.
	unhandled = 10 * time.Second
	// unsaid is the reason of a condition that nothing has set yet.
	unsaid = "AwaitingReconciliation"
)

// Unserved returns why no scheduler has handled a pod, or an empty string for one that a scheduler has, that is held by its scheduling gates, or that is
// new. A scheduler writes the condition PodScheduled of each pod that it serves.
func Unserved(pod *corev1.Pod, now time.Time) string {
	if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || len(pod.Spec.SchedulingGates) > 0 || conditions.Pod(pod, corev1.PodScheduled) != nil ||
		pod.Status.Phase != corev1.PodPending || now.Sub(pod.CreationTimestamp.Time) < unhandled {
		return ""
	}
	return fmt.Sprintf("no scheduler serves the pod: its spec.schedulerName is %s, and no scheduler has handled it since it was created", pod.Spec.SchedulerName)
}

// WhyPending returns why a pod has no node: what its scheduler says in the condition PodScheduled, whichever that is, or that none serves it; an empty
// string for a pod about which no scheduler has said anything yet.
func WhyPending(pod *corev1.Pod, now time.Time) string {
	if c := conditions.Pod(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse && c.Message != "" {
		return c.Message
	}
	return Unserved(pod, now)
}

// unready returns the condition Ready of a node whose kubelet has posted it and that is not ready now, such as one whose kubelet has ended; nil for others.
func unready(node *corev1.Node) *corev1.NodeCondition {
	if node == nil {
		return nil
	}
	if c := conditions.Posted(node); c != nil && c.Status != corev1.ConditionTrue {
		return c
	}
	return nil
}

// whyNotReady returns what a node waits for that takes long to become ready: the message of the first of its conditions that is not True.
func whyNotReady(claim *karpv1.NodeClaim, now time.Time) string {
	if now.IsZero() || now.Sub(claim.CreationTimestamp.Time) < slow || claim.DeletionTimestamp != nil {
		return ""
	}
	for _, of := range []string{karpv1.ConditionTypeLaunched, karpv1.ConditionTypeRegistered, karpv1.ConditionTypeInitialized} {
		if c := conditions.Claim(claim, of); c != nil && !c.IsTrue() && c.Reason != unsaid {
			return c.Message
		}
	}
	return ""
}
