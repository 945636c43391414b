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
type Table struct {
	places map[types.UID]place
	// reserved are the buffers whose room is for their takers alone.
	reserved reserved
	// terminating are nodes that terminate without a move: the room on them is lost.
	terminating map[string]bool
}

// NewTable returns an empty table.
func NewTable() *Table {
	return &Table{places: map[types.UID]place{}, reserved: reserved{}, terminating: map[string]bool{}}
}

// Clone returns a copy.
func (t *Table) Clone() *Table {
	return &Table{places: maps.Clone(t.places), reserved: maps.Clone(t.reserved), terminating: maps.Clone(t.terminating)}
}

// Len returns how many pods have room.
func (t *Table) Len() int { return len(t.places) }

// Put gives a pod room on a node: one in flight, by its NodeClaim, or one that exists, by its name.
func (t *Table) Put(pod *corev1.Pod, claim, node string) {
	t.places[pod.UID] = place{pod: pod, claim: claim, node: node}
}

// Drop takes the room of the pod away.
func (t *Table) Drop(uid types.UID) { delete(t.places, uid) }

// On returns the pods that have room on the node, by its NodeClaim or its name.
func (t *Table) On(claim, node string) []*corev1.Pod {
	var out []*corev1.Pod
	for _, p := range t.places {
		if claim != "" && p.claim == claim || node != "" && p.node == node {
			out = append(out, p.pod)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int { return cmp.Compare(a.UID, b.UID) })
	return out
}

// Each calls add with each pod and where it has room: a node in flight, by its NodeClaim, or a Node, by its name.
func (t *Table) Each(add func(pod *corev1.Pod, claim, node string)) {
	for _, p := range t.places {
		add(p.pod, p.claim, p.node)
	}
}

// Nodes returns the names of the nodes that exist and have room for pods of buffers.
func (t *Table) Nodes() map[string]bool {
	out := map[string]bool{}
	for _, p := range t.places {
		if p.node != "" {
			out[p.node] = true
		}
	}
	return out
}

// Joined records the Node of a claim that is in flight no more.
func (t *Table) Joined(claim, node string) {
	for uid, p := range t.places {
		if p.claim == claim {
			p.claim, p.node = "", node
			t.places[uid] = p
		}
	}
}

// Failed drops the room on a claim whose node does not come.
func (t *Table) Failed(claim string) {
	maps.DeleteFunc(t.places, func(_ types.UID, p place) bool { return p.claim == claim })
}

// Terminate notes nodes that terminate without a move: their room is planned elsewhere at once.
func (t *Table) Terminate(nodes []string) {
	have := t.Nodes()
	for _, name := range nodes {
		if have[name] {
			t.terminating[name] = true
		}
	}
}

// Terminates reports whether the node terminates without a move.
func (t *Table) Terminates(node string) bool { return t.terminating[node] }

// Keep drops the pods of the namespace but those of the set, and all pods of namespaces that have no buffers any more.
func (t *Table) Keep(namespace string, pods map[types.UID]bool, namespaces []string) {
	known := make(map[string]bool, len(namespaces))
	for _, name := range namespaces {
		known[name] = true
	}
	maps.DeleteFunc(t.places, func(uid types.UID, p place) bool {
		return !known[p.pod.Namespace] || p.pod.Namespace == namespace && !pods[uid]
	})
	maps.DeleteFunc(t.reserved, func(name string, _ map[string]takers) bool { return !known[name] })
	nodes := t.Nodes()
	maps.DeleteFunc(t.terminating, func(name string, _ bool) bool { return !nodes[name] })
}

// Of returns where the pod has room: the NodeClaim of a node in flight, or the name of a node. Both are empty where it has none.
func (t *Table) Of(uid types.UID) (claim, node string) {
	return t.places[uid].claim, t.places[uid].node
}

// Pod returns the pod of the UID, nil where it has no room.
func (t *Table) Pod(uid types.UID) *corev1.Pod { return t.places[uid].pod }
