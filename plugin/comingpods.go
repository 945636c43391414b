package plugin

import (
	"cmp"
	"slices"
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

// rooms calls add with each pod of a kind that has room on a node: one in flight, by its NodeClaim, or one that exists, by its name, or by both.
type rooms func(add func(pod *corev1.Pod, claim, node string))

// kept returns a function that lists the pods which count as being on a node, by its NodeClaim or its name: those of the rooms and those that come there, as
// they are promised the Node, the launcher has bound them or the scheduler has nominated them to it. Pods of nodes in flight are in the catalog's state. The
// rooms are gone through once, not once for each node.
func (c *comingPods) kept(now time.Time, of ...rooms) func(claim, node string) []*corev1.Pod {
	claims, nodes := map[string][]*corev1.Pod{}, map[string][]*corev1.Pod{}
	add := func(pod *corev1.Pod, claim, node string) {
		if claim != "" {
			claims[claim] = append(claims[claim], pod)
		}
		if node != "" {
			nodes[node] = append(nodes[node], pod)
		}
	}
	for _, each := range of {
		each(add)
	}
	for node, list := range c.promises.ComingByNode(now) {
		for _, held := range list {
			if pod := c.queue.objects.pod(held.Pod); comes(pod, node) {
				add(pod, "", node)
			}
		}
	}
	byUID := func(a, b *corev1.Pod) int { return cmp.Compare(a.UID, b.UID) }
	for _, lists := range []map[string][]*corev1.Pod{claims, nodes} {
		for _, list := range lists {
			slices.SortFunc(list, byUID)
		}
	}
	return func(claim, node string) []*corev1.Pod {
		out := slices.Concat(claims[claim], nodes[node])
		if node == "" {
			return out
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
