// Package ledger records which pods came onto nodes and left them, and which nodes came and left, from one snapshot of the scheduler to the next, so that what was
// computed of all pods can be brought up to date.
package ledger

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// maxChanges bounds what the ledger remembers. What was last brought up to date before that is computed from scratch.
const maxChanges = 4096

// Change is a pod that came onto a node or left it, or a node that came or left. A pod that changes leaves as what it was and comes as what it is. So does a node
// whose labels change, with all of its pods: they leave before it, and come after it.
type Change struct {
	// Pod as it came or left; nil where the node did.
	Pod fwk.PodInfo
	// Node as it was then.
	Node *corev1.Node
	// Left is false for what came.
	Left bool
}

// seen is a node as it was when the ledger last looked.
type seen struct {
	info       fwk.NodeInfo
	generation int64
	node       *corev1.Node
	pods       []fwk.PodInfo
}

func see(info fwk.NodeInfo) seen {
	return seen{info: info, generation: info.GetGeneration(), node: info.Node(), pods: info.GetPods()}
}

// Ledger compares the pods of a node with those of before: a snapshot replaces what it has of a node and changes none of it, but within the cycle of a pod group, in which the
// ledger must not be updated. Its zero value is ready. It is
// not safe for concurrent use.
type Ledger struct {
	nodes []seen
	began bool
	// changes have the numbers from first on.
	changes []Change
	first   int
}

// Update records what has changed since the last time. The nodes are all those of the snapshot.
func (l *Ledger) Update(nodes []fwk.NodeInfo) {
	switch {
	case !l.began:
		l.begin(nodes)
	case !l.inOrder(nodes):
		l.rearrange(nodes)
	}
	for i, info := range nodes {
		was := &l.nodes[i]
		if info.GetGeneration() == was.generation {
			continue
		}
		now := see(info)
		if now.node != was.node && !maps.Equal(now.node.Labels, was.node.Labels) {
			l.left(was)
			l.came(&now)
		} else {
			l.compare(was, &now)
		}
		*was = now
	}
	if len(l.changes) > maxChanges {
		drop := len(l.changes) - maxChanges/2
		l.changes = append([]Change(nil), l.changes[drop:]...)
		l.first += drop
	}
}

// begin takes the first nodes as they are. What was computed before that is computed from scratch.
func (l *Ledger) begin(nodes []fwk.NodeInfo) {
	l.began, l.first = true, 1
	l.nodes = make([]seen, len(nodes))
	for i, info := range nodes {
		l.nodes[i] = see(info)
	}
}

// inOrder reports whether the nodes are those of before, in the order of before.
func (l *Ledger) inOrder(nodes []fwk.NodeInfo) bool {
	if len(nodes) != len(l.nodes) {
		return false
	}
	for i, info := range nodes {
		if l.nodes[i].info != info {
			return false
		}
	}
	return true
}

// rearrange records the nodes that came and left, and takes the order of these.
func (l *Ledger) rearrange(nodes []fwk.NodeInfo) {
	before := make(map[fwk.NodeInfo]*seen, len(l.nodes))
	for i := range l.nodes {
		before[l.nodes[i].info] = &l.nodes[i]
	}
	now := make([]seen, len(nodes))
	for i, info := range nodes {
		if was := before[info]; was != nil {
			now[i] = *was
			delete(before, info)
			continue
		}
		now[i] = see(info)
		l.came(&now[i])
	}
	for i := range l.nodes {
		if was := &l.nodes[i]; before[was.info] != nil {
			l.left(was)
		}
	}
	l.nodes = now
}

// came records a node with its pods.
func (l *Ledger) came(s *seen) {
	l.changes = append(l.changes, Change{Node: s.node})
	for _, pod := range s.pods {
		l.changes = append(l.changes, Change{Pod: pod, Node: s.node})
	}
}

// left records that a node has left with its pods.
func (l *Ledger) left(s *seen) {
	for _, pod := range s.pods {
		l.changes = append(l.changes, Change{Pod: pod, Node: s.node, Left: true})
	}
	l.changes = append(l.changes, Change{Node: s.node, Left: true})
}

// compare records the pods that left a node, and those that came.
func (l *Ledger) compare(was, now *seen) {
	stayed := make(map[fwk.PodInfo]bool, len(was.pods))
	for _, pod := range was.pods {
		stayed[pod] = false
	}
	for _, pod := range now.pods {
		if _, ok := stayed[pod]; ok {
			stayed[pod] = true
			continue
		}
		l.changes = append(l.changes, Change{Pod: pod, Node: now.node})
	}
	for _, pod := range was.pods {
		if !stayed[pod] {
			l.changes = append(l.changes, Change{Pod: pod, Node: now.node, Left: true})
		}
	}
}

// Mark is a state of the cluster for which something was computed. Its zero value is before all others.
type Mark struct{ next int }

// Clone returns the same mark, so that a scheduling cycle can keep one.
func (m Mark) Clone() fwk.StateData { return m }

// Now returns the mark of what the ledger saw last.
func (l *Ledger) Now() Mark { return Mark{next: l.first + len(l.changes)} }

// Since returns the changes since the mark; ok is false if they are forgotten.
func (l *Ledger) Since(m Mark) (changes []Change, ok bool) {
	if !l.began || m.next < l.first {
		return nil, false
	}
	return l.changes[m.next-l.first:], true
}
