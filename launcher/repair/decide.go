package repair

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// unhealthyPercent is the maximum share of unhealthy nodes in a NodePool, rounded up, at which nodes are repaired, as in Karpenter.
const unhealthyPercent = 20

// Policy is how long a condition of a Node is tolerated.
type Policy struct {
	// Type and Status of the condition.
	Type   corev1.NodeConditionType
	Status corev1.ConditionStatus
	// Toleration is how long it may last.
	Toleration time.Duration
}

// Policies are those of Karpenter's AWS provider: the kubelet's Ready, and what the EKS node monitoring agent reports.
func Policies() []Policy {
	return []Policy{
		{corev1.NodeReady, corev1.ConditionFalse, 30 * time.Minute},
		{corev1.NodeReady, corev1.ConditionUnknown, 30 * time.Minute},
		{"AcceleratedHardwareReady", corev1.ConditionFalse, 10 * time.Minute},
		{"StorageReady", corev1.ConditionFalse, 30 * time.Minute},
		{"NetworkingReady", corev1.ConditionFalse, 30 * time.Minute},
		{"KernelReady", corev1.ConditionFalse, 30 * time.Minute},
		{"ContainerRuntimeReady", corev1.ConditionFalse, 30 * time.Minute},
	}
}

// Sickness is a condition for which a node is to be repaired.
type Sickness struct {
	// Condition is the Node's condition.
	Condition corev1.NodeCondition
	// Due is when it is no longer tolerated.
	Due time.Time
}

// Find returns the node's condition that is due first; false if the node is healthy.
func Find(node *corev1.Node, policies []Policy) (Sickness, bool) {
	var out Sickness
	found := false
	for _, p := range policies {
		for _, c := range node.Status.Conditions {
			if c.Type != p.Type || c.Status != p.Status {
				continue
			}
			due := c.LastTransitionTime.Add(p.Toleration)
			if !found || due.Before(out.Due) {
				out, found = Sickness{Condition: c, Due: due}, true
			}
		}
	}
	return out, found
}

// TooMany returns why too many of the nodes are unhealthy for a repair to help, in the words of Karpenter's Event; "" if not. of is what the
// nodes belong to: nodepool or cluster.
func TooMany(nodes []corev1.Node, policies []Policy, of string) string {
	sick := 0
	for i := range nodes {
		if _, found := Find(&nodes[i], policies); found {
			sick++
		}
	}
	// A percentage rounds up, so that the only node of a NodePool can be repaired.
	if most := (len(nodes)*unhealthyPercent + 99) / 100; sick > most {
		return fmt.Sprintf("more than %d%% nodes are unhealthy in the %s (%d of %d)", unhealthyPercent, of, sick, len(nodes))
	}
	return ""
}
