package affinity

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// maxChanges bounds what the ledger remembers. A class that was last asked for before that is computed from scratch.
const maxChanges = 4096

// change is a pod that came onto a node or left it. A pod that changes leaves as what it was and comes as what it is.
type change struct {
	pod  fwk.PodInfo
	node fwk.NodeInfo
	left bool
}

// seen is a node as it was when the ledger last looked.
type seen struct {
	info       fwk.NodeInfo
	generation int64
	node       *corev1.Node
	pods       []fwk.PodInfo
}

// ledger records which pods came onto nodes and left them, from one snapshot of the scheduler to the next. The snapshot replaces what it has of
// a node and changes none of it, so that the pods of a node can be held against those of before.
type ledger struct {
	nodes []seen
	// epoch counts the times when all was forgotten: a node came, was removed, or has other labels.
	epoch int
	// changes have the numbers from first on.
	changes []change
	first   int
}

// update records what has changed.
func (l *ledger) update(nodes []fwk.NodeInfo) {
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
		l.changes = append([]change(nil), l.changes[drop:]...)
		l.first += drop
	}
}

// compare records the pods that left the node, and those that came.
func (l *ledger) compare(info fwk.NodeInfo, before, now []fwk.PodInfo) {
	stayed := make(map[fwk.PodInfo]bool, len(before))
	for _, pod := range before {
		stayed[pod] = false
	}
	for _, pod := range now {
		if _, ok := stayed[pod]; ok {
			stayed[pod] = true
			continue
		}
		l.changes = append(l.changes, change{pod: pod, node: info})
	}
	for _, pod := range before {
		if !stayed[pod] {
			l.changes = append(l.changes, change{pod: pod, node: info, left: true})
		}
	}
}

// reset forgets all changes and takes the nodes as they are.
func (l *ledger) reset(nodes []fwk.NodeInfo) {
	l.epoch++
	l.first += len(l.changes)
	l.changes = nil
	l.nodes = make([]seen, len(nodes))
	for i, info := range nodes {
		l.nodes[i] = seen{info: info, generation: info.GetGeneration(), node: info.Node(), pods: info.GetPods()}
	}
}

// mark is a state of the cluster for which something was computed.
type mark struct{ epoch, next int }

// now returns the mark of what the ledger saw last.
func (l *ledger) now() mark { return mark{epoch: l.epoch, next: l.first + len(l.changes)} }

// since returns the changes since the mark; ok is false if they are forgotten.
func (l *ledger) since(m mark) (changes []change, ok bool) {
	if m.epoch != l.epoch || m.next < l.first {
		return nil, false
	}
	return l.changes[m.next-l.first:], true
}
