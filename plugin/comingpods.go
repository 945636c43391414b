package plugin

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"

	"github.com/slipway-k8s/slipway/plugin/promise"
)

// comingPods knows the pods that have room on nodes which do not show them yet. It is safe for concurrent use.
type comingPods struct {
	queue    *queue
	promises *promise.Table
}

// on returns a function that lists the pods which come to a Node, by its name: those that are promised it, the launcher has bound or the scheduler has
// nominated to it. Pods of nodes in flight are in the catalog's state.
func (c *comingPods) on(now time.Time) func(claim, node string) []*corev1.Pod {
	promised := c.promises.ComingByNode(now)
	return func(_, node string) []*corev1.Pod {
		if node == "" {
			return nil
		}
		var out []*corev1.Pod
		for _, held := range promised[node] {
			if pod := c.queue.objects.pod(held.Pod); comes(pod, node) {
				out = append(out, pod)
			}
		}
		for _, info := range c.queue.nominated(node) {
			if pod := info.GetPod(); comes(pod, node) {
				out = append(out, pod)
			}
		}
		return out
	}
}

// comes reports whether the pod, which has room on the node, may still come there, or is there.
func comes(pod *corev1.Pod, node string) bool {
	return pod != nil && pod.DeletionTimestamp == nil && !podutil.IsPodTerminal(pod) && (pod.Spec.NodeName == "" || pod.Spec.NodeName == node)
}
