package webapi

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/view"
)

// nodeLaunchable is the condition in which the scheduler writes why it launches no node for a pod: its message is JSON.
const nodeLaunchable corev1.PodConditionType = "slipway.dev/NodeLaunchable"

// Reason is why no node is launched for a pod.
type Reason struct {
	// NodePools that have this reason; empty for a reason that holds for all.
	NodePools []string `json:"nodePools,omitempty"`
	// Code is one CamelCase word; empty for what no plan decided.
	Code string `json:"code,omitempty"`
	// Message for people; empty where the code says all.
	Message string `json:"message,omitempty"`
}

// Class is pending pods of one owner with the same reason.
type Class struct {
	view.PendingPods
	// Reasons for which no node is launched for Pod, those of the NodePools that it could have first.
	Reasons []Reason `json:"reasons,omitempty"`
}

// reasonsOf returns what the scheduler wrote on a pod; nil for a pod that has a place, or whose condition is another program's.
func reasonsOf(pod *corev1.Pod) []Reason {
	if pod.Spec.NodeName != "" {
		return nil // The binding leaves the condition on the pod for a while.
	}
	c := conditions.Pod(pod, nodeLaunchable)
	if c == nil || c.Status != corev1.ConditionFalse {
		return nil
	}
	var written struct {
		Reasons []Reason `json:"reasons"`
	}
	if err := json.Unmarshal([]byte(c.Message), &written); err != nil {
		return nil
	}
	return written.Reasons
}

// classes adds the reasons to rows of pending pods.
func classes(rows []view.PendingPods, pods []*corev1.Pod) []Class {
	type name struct{ namespace, name string }
	of := make(map[name]*Class, len(rows))
	out := make([]Class, len(rows))
	for i, row := range rows {
		out[i].PendingPods = row
		of[name{row.Namespace, row.Pod}] = &out[i]
	}
	for _, pod := range pods {
		if class := of[name{pod.Namespace, pod.Name}]; class != nil {
			class.Reasons = reasonsOf(pod)
		}
	}
	return out
}
