// Package ledger records which pods came onto nodes and left them, from one snapshot of the scheduler to the next, so that what was computed of all pods
// can be brought up to date.
package ledger

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// maxChanges bounds what the ledger remembers. What was last brought up to date before that is computed from scratch.
const maxChanges = 4096

// Change is a pod that came onto a node or left it. A pod that changes leaves as what it was and comes as what it is.
type Change struct {
	// Pod as it came or left.
	Pod fwk.PodInfo
	// Node has the labels that it had then.
	Node fwk.NodeInfo
	// Left is false for a pod that came.
	Left bool
}

// seen is a node as it was when the ledger last looked.
type seen struct {
	info       fwk.NodeInfo
	generation int64
	node       *corev1.Node
	pods       []fwk.PodInfo
}

// Ledger compares the pods of a node with those of before: a snapshot replaces what it has of a node and changes none of it. Its zero value is ready. It is
// not safe for concurrent use.
type Ledger struct {
	nodes []seen
	// epoch counts the times when all was forgotten: a node came, was removed, or has other labels.
	epoch int
	// changes have the numbers from first on.
	changes []Change
	first   int
}

// Update records what has changed since the last time. The nodes are all those of the snapshot, in its order.
func (l *Ledger) Update(nodes []fwk.NodeInfo) {
	if len(nodes) != len(l.nodes) {
		l.reset(nodes)
		return
	}
	for i, info := range nodes {
		was := &l.nodes[i]
		if was.info != info {
			l.reset(nodes)
			return
		}
		generation := info.GetGeneration()
		if generation == was.generation {
			continue
		}
		node := info.Node()
		if node != was.node && !maps.Equal(node.Labels, was.node.Labels) {
			l.reset(nodes)
			return
		}
		pods := info.GetPods()
		l.compare(info, was.pods, pods)
		*was = seen{info: info, generation: generation, node: node, pods: pods}
	}
	if len(l.changes) > maxChanges {
		drop := len(l.changes) - maxChanges/2
		l.changes = append([]Change(nil), l.changes[drop:]...)
		l.first += drop
	}
}

// compare records the pods that left the node, and those that came.
func (l *Ledger) compare(info fwk.NodeInfo, before, now []fwk.PodInfo) {
	stayed := make(map[fwk.PodInfo]bool, len(before))
	for _, pod := range before {
		stayed[pod] = false
	}
	for _, pod := range now {
		if _, ok := stayed[pod]; ok {
			stayed[pod] = true
			continue
		}
		l.changes = append(l.changes, Change{Pod: pod, Node: info})
	}
	for _, pod := range before {
		if !stayed[pod] {
			l.changes = append(l.changes, Change{Pod: pod, Node: info, Left: true})
		}
	}
}

// reset forgets all changes and takes the nodes as they are.
func (l *Ledger) reset(nodes []fwk.NodeInfo) {
	l.epoch++
	l.first += len(l.changes)
	l.changes = nil
	l.nodes = make([]seen, len(nodes))
	for i, info := range nodes {
		l.nodes[i] = seen{info: info, generation: info.GetGeneration(), node: info.Node(), pods: info.GetPods()}
	}
}

// Mark is a state of the cluster for which something was computed. Its zero value is before all others.
type Mark struct{ epoch, next int }

// Now returns the mark of what the ledger saw last.
func (l *Ledger) Now() Mark { return Mark{epoch: l.epoch, next: l.first + len(l.changes)} }

// Since returns the changes since the mark; ok is false if they are forgotten, or a node came, was removed, or has other labels.
func (l *Ledger) Since(m Mark) (changes []Change, ok bool) {
	if m.epoch != l.epoch || m.next < l.first {
		return nil, false
	}
	return l.changes[m.next-l.first:], true
}
