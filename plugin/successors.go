package plugin

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

const (
	// successorWithin is how long after a pod left its node the room that was planned for it waits for its successor.
	successorWithin = 30 * time.Second
	// bequestAtMost is how long that room is kept at most: a budget or do-not-disrupt may hold the pod where it is.
	bequestAtMost = 5 * time.Minute
	// moveAtMost is the same for the pods of a move, which nothing held when it began: it may wait for many nodes to boot, and for
	// budgets that let one pod go at a time.
	moveAtMost = time.Hour
	// taintSeenWithin is how long the scheduler's informers may take to show what was done to a node.
	taintSeenWithin = 5 * time.Second
)

// bequest is the room that was planned for a pod of a node that goes: the pod's own until it leaves, and from then on that of
// the one that its controller makes instead.
type bequest struct {
	pod   *corev1.Pod
	owner types.UID
	// leaves is the node that goes.
	leaves string
	// move says that the node goes in a move, which may be called off: the room is kept as long as the node is cordoned.
	move bool
	// claim is the node in flight that has the room, node the Node, where it is known.
	claim, node string
	// beside are the owner's pods that are on the node besides: they take none of the room.
	beside map[types.UID]bool
	made   time.Time
	// left is when the pod was first seen leaving, or gone; zero before.
	left time.Time
}

// bequests is what is kept for pods of nodes that go, by their UID. The planner's goroutine alone uses it.
type bequests map[types.UID]bequest

// keep notes where room was planned for pods of nodes that go: a claim's name and the node's, as far as it has one.
// on are the pods that are there.
func (b bequests) keep(members []plan.Member, at bequest, on []fwk.PodInfo, pod func(catalog.PodRef) *corev1.Pod) {
	for _, m := range members {
		for _, ref := range m.Pods {
			found := pod(ref)
			if found == nil {
				continue
			}
			next := at
			next.pod, next.leaves = found, found.Spec.NodeName
			if owner := metav1.GetControllerOf(found); owner != nil {
				next.owner = owner.UID
			}
			next.beside = siblings(on, next.owner)
			b[found.UID] = next
		}
	}
}

// on lists the pods whose room is on the node, by its NodeClaim or its name.
func (b bequests) on(claim, node string) []*corev1.Pod {
	var out []*corev1.Pod
	for _, q := range b {
		if claim != "" && q.claim == claim || node != "" && q.node == node {
			out = append(out, q.pod)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int { return cmp.Compare(a.UID, b.UID) })
	return out
}

// tidy notes who has left by now, and forgets what nobody will come for: leaving says whether a node still goes.
func (b bequests) tidy(now time.Time, pod func(catalog.PodRef) *corev1.Pod, leaving func(node string) bool) {
	for uid, q := range b {
		if current := pod(catalog.PodRefOf(q.pod)); q.left.IsZero() && (current == nil || current.UID != uid || current.DeletionTimestamp != nil) {
			q.left = now
			b[uid] = q
		}
		nobody := q.owner == "" || now.Sub(q.left) > successorWithin
		most := bequestAtMost
		if q.move {
			most = moveAtMost
		}
		off := q.move && q.left.IsZero() && now.Sub(q.made) > taintSeenWithin && !leaving(q.leaves)
		if now.Sub(q.made) > most || off || !q.left.IsZero() && nobody {
			delete(b, uid)
		}
	}
}

// joined notes the Node of a claim that is in flight no more; failed forgets what was kept on one.
func (b bequests) joined(claim, node string) {
	for uid, q := range b {
		if q.claim == claim {
			q.node = node
			b[uid] = q
		}
	}
}

func (b bequests) failed(claim string) {
	for uid, q := range b {
		if q.claim == claim {
			delete(b, uid)
		}
	}
}

// divide takes from the entries those that are successors of pods that left, at most one for each, and gives up the room that
// was kept for them: they are planned before all others, into that room.
func (b bequests) divide(entries []intake.Entry) (successors, others []intake.Entry) {
	if len(b) == 0 {
		return nil, entries
	}
	left := map[types.UID][]types.UID{}
	for uid, q := range b {
		if !q.left.IsZero() && q.owner != "" {
			left[q.owner] = append(left[q.owner], uid)
		}
	}
	for _, e := range entries {
		owner := metav1.GetControllerOf(e.Pod)
		if owner == nil || e.Gang.Name != "" || len(left[owner.UID]) == 0 {
			others = append(others, e)
			continue
		}
		list := left[owner.UID]
		slices.Sort(list)
		delete(b, list[0])
		left[owner.UID] = list[1:]
		successors = append(successors, e)
	}
	return successors, others
}
