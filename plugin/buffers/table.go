package buffers

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// place is where a pod has room.
type place struct {
	pod *corev1.Pod
	// claim is the node in flight that has the room, node the Node, where it is known.
	claim, node string
}

// Table is where the pods of buffers have room, by their UID. It serves one caller at a time; a Clone serves another.
type Table map[types.UID]place

// Clone returns a copy.
func (t Table) Clone() Table { return maps.Clone(t) }

// Put gives a pod room on a node: one in flight, by its NodeClaim, or one that exists, by its name.
func (t Table) Put(pod *corev1.Pod, claim, node string) {
	t[pod.UID] = place{pod: pod, claim: claim, node: node}
}

// On returns the pods that have room on the node, by its NodeClaim or its name.
func (t Table) On(claim, node string) []*corev1.Pod {
	var out []*corev1.Pod
	for _, p := range t {
		if claim != "" && p.claim == claim || node != "" && p.node == node {
			out = append(out, p.pod)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int { return cmp.Compare(a.UID, b.UID) })
	return out
}

// Nodes returns the names of the nodes that exist and have room for pods of buffers.
func (t Table) Nodes() map[string]bool {
	out := map[string]bool{}
	for _, p := range t {
		if p.node != "" {
			out[p.node] = true
		}
	}
	return out
}

// Joined records the Node of a claim that is in flight no more.
func (t Table) Joined(claim, node string) {
	for uid, p := range t {
		if p.claim == claim {
			p.claim, p.node = "", node
			t[uid] = p
		}
	}
}

// Failed drops the room on a claim whose node does not come.
func (t Table) Failed(claim string) {
	maps.DeleteFunc(t, func(_ types.UID, p place) bool { return p.claim == claim })
}

// Keep drops the pods of the namespace but those of the set, and all pods of namespaces that have no buffers any more.
func (t Table) Keep(namespace string, pods map[types.UID]bool, namespaces []string) {
	known := make(map[string]bool, len(namespaces))
	for _, name := range namespaces {
		known[name] = true
	}
	maps.DeleteFunc(t, func(uid types.UID, p place) bool {
		return !known[p.pod.Namespace] || p.pod.Namespace == namespace && !pods[uid]
	})
}

// Of returns where the pod has room: the NodeClaim of a node in flight, or the name of a node. Both are empty where it has none.
func (t Table) Of(uid types.UID) (claim, node string) { return t[uid].claim, t[uid].node }

// Pod returns the pod of the UID, nil where it has no room.
func (t Table) Pod(uid types.UID) *corev1.Pod { return t[uid].pod }
