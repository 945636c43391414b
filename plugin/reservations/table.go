package reservations

import (
	"cmp"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

const (
	// replacementWithin is how long a reservation waits for the replacement pod after the displaced pod has ended. The controller of a StatefulSet creates it
	// only then.
	replacementWithin = 30 * time.Second
	// keptAtMost is how long a reservation lasts at most: a budget or do-not-disrupt may hold the pod where it is.
	keptAtMost = 5 * time.Minute
	// keptInMoveAtMost is the same for the pods of a move, which nothing held when it began: it may wait for many nodes to boot,
	// and for budgets that let one pod go at a time.
	keptInMoveAtMost = time.Hour
	// taintSeenWithin is how long the scheduler's informers may take to show what was done to a node.
	taintSeenWithin = 5 * time.Second
)

// Config is what a Table needs. All fields are required.
type Config struct {
	// Pod returns the pod as the informer has it, nil if it is gone or another one by now.
	Pod func(catalog.PodRef) *corev1.Pod
	// Terminates reports whether a node is cordoned to terminate, or gone.
	Terminates func(node string) bool
	// Namespaces of pods whose anti-affinity selects namespaces.
	Namespaces corelisters.NamespaceLister
	// OncePod reports whether the access mode of a PersistentVolumeClaim is ReadWriteOncePod.
	OncePod func(namespace, claim string) bool
}

// Place is where room was planned.
type Place struct {
	// NodeClaim of the node in flight that has the room. Empty for a node that exists.
	NodeClaim string
	// Node is the name of the Node, where it is known.
	Node string
	// Beside are the pods that are on the node besides.
	Beside []fwk.PodInfo
	// InMove means that the pods' nodes terminate in a move, which may be called off: the room is kept as long as they are
	// cordoned.
	InMove bool
	// At is when the room was planned.
	At time.Time
}

// reservation is the room that was planned for one displaced pod, and is then its replacement's.
type reservation struct {
	// need is the room, which every board has: it is computed once. Its pod is the displaced one, its owner that of the pod, which a release takes
	// from it, and of its replacement.
	need Need
	// terminates is the node of the pod.
	terminates string
	inMove     bool
	// claim is the node in flight that has the room, node the Node, where it is known.
	claim, node string
	// beside are the owner's pods that are on the node besides: they take none of the room.
	beside map[types.UID]bool
	made   time.Time
	// left is when the pod was last seen leaving, or released from its ReplicaSet, or first seen gone; zero before.
	left time.Time
}

// Snapshot is a copy of a table's reservations, by the UID of the displaced pod.
type Snapshot map[types.UID]reservation

// On returns the displaced pods whose room is on the node, by its NodeClaim or its name.
func (s Snapshot) On(claim, node string) []*corev1.Pod {
	var out []*corev1.Pod
	for _, r := range s {
		if claim != "" && r.claim == claim || node != "" && r.node == node {
			out = append(out, r.need.Pod)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int { return cmp.Compare(a.UID, b.UID) })
	return out
}

// Each calls add with each displaced pod and where its room is: a node in flight, by its NodeClaim, or a Node, by its name.
func (s Snapshot) Each(add func(pod *corev1.Pod, claim, node string)) {
	for _, r := range s {
		add(r.need.Pod, r.claim, r.node)
	}
}

// Table holds the reservations. The planner's goroutine alone uses it, Board excepted.
type Table struct {
	Config

	reserved Snapshot
	// replaced are replacement pods that are planned into reserved room. They take no more of it when they come.
	replaced map[types.UID]bool
	board    atomic.Pointer[Board]
}

// New returns an empty table.
func New(c Config) *Table {
	t := &Table{Config: c, reserved: Snapshot{}, replaced: map[types.UID]bool{}}
	t.board.Store(t.reserved.board(nil))
	return t
}

// Board returns what was last published. It is safe for concurrent use.
func (t *Table) Board() *Board { return t.board.Load() }

// Publish makes the reservations visible to others, with the Nodes of the claims in flight that have one by now: they take pods
// before the launcher reports that they have joined. free is the standing room by node.
func (t *Table) Publish(inFlight map[string]catalog.InFlightNode, free map[string][]Standing) {
	if len(t.reserved) == 0 {
		clear(t.replaced)
	}
	for uid, r := range t.reserved {
		if n := inFlight[r.claim]; r.node == "" && n.NodeName != "" {
			r.node = n.NodeName
			t.reserved[uid] = r
		}
	}
	last, next := t.Board(), t.reserved.board(free)
	if next.freed = last.freed; last.lost(next) {
		next.freed++
	}
	t.board.Store(next)
}

// Snapshot returns a copy of the reservations.
func (t *Table) Snapshot() Snapshot { return maps.Clone(t.reserved) }

// On returns the displaced pods whose room is on the node, by its NodeClaim or its name.
func (t *Table) On(claim, node string) []*corev1.Pod { return t.reserved.On(claim, node) }

// Each calls add with each displaced pod and where its room is: a node in flight, by its NodeClaim, or a Node, by its name.
func (t *Table) Each(add func(pod *corev1.Pod, claim, node string)) { t.reserved.Each(add) }

// Has reports whether room is reserved for the displaced pod.
func (t *Table) Has(uid types.UID) bool {
	_, ok := t.reserved[uid]
	return ok
}

// Displaced returns the UIDs of the pods that room is reserved for.
func (t *Table) Displaced() []types.UID { return slices.Collect(maps.Keys(t.reserved)) }

// Reserve keeps the room that was planned for displaced pods.
func (t *Table) Reserve(members []plan.Member, at Place) {
	for _, m := range members {
		for _, ref := range m.Pods {
			pod := t.Pod(ref)
			if pod == nil {
				continue
			}
			r := reservation{need: NeedOf(pod), terminates: pod.Spec.NodeName, inMove: at.InMove, claim: at.NodeClaim, node: at.Node, made: at.At}
			r.need.Owner = intake.ControllerOf(pod)
			r.beside = siblings(at.Beside, r.need.Owner)
			t.reserved[pod.UID] = r
		}
	}
}

// siblings returns the pods of an owner among the others.
func siblings(pods []fwk.PodInfo, owner intake.Controller) map[types.UID]bool {
	out := map[types.UID]bool{}
	for _, pi := range pods {
		if of := intake.ControllerOf(pi.GetPod()); of == owner && !of.None() {
			out[pi.GetPod().UID] = true
		}
	}
	return out
}

// Tidy notes which pods have left by now, and drops the reservations that no pod will come for.
func (t *Table) Tidy(now time.Time) {
	for uid, r := range t.reserved {
		switch current := t.Pod(catalog.PodRefOf(r.need.Pod)); {
		case current != nil && !disruption.Leaves(current):
			r.left = time.Time{} // A pod that was released may be adopted again.
		case current != nil || r.left.IsZero():
			r.left = now
		}
		t.reserved[uid] = r
		unclaimed := r.need.Owner.None() || now.Sub(r.left) > replacementWithin
		most := keptAtMost
		if r.inMove {
			most = keptInMoveAtMost
		}
		calledOff := r.inMove && r.left.IsZero() && now.Sub(r.made) > taintSeenWithin && !t.Terminates(r.terminates)
		if now.Sub(r.made) > most || calledOff || !r.left.IsZero() && unclaimed {
			delete(t.reserved, uid)
		}
	}
}

// Left reports whether the pod's room is its replacement's: it is leaving its node, gone, or released from its ReplicaSet.
func (t *Table) Left(pod *corev1.Pod) bool {
	current := t.Pod(catalog.PodRefOf(pod))
	return current == nil || disruption.Leaves(current)
}

// Joined records the Node of a claim that is in flight no more.
func (t *Table) Joined(claim, node string) {
	for uid, r := range t.reserved {
		if r.claim == claim {
			r.node = node
			t.reserved[uid] = r
		}
	}
}

// Failed drops the reservations on a claim whose node does not come.
func (t *Table) Failed(claim string) {
	maps.DeleteFunc(t.reserved, func(_ types.UID, r reservation) bool { return r.claim == claim })
}

// Divide tidies, takes the replacement pods from the entries, at most one for each displaced pod that has left, and gives up the
// room that was reserved for them: they are to be planned before all others, into that room. A pod that waits for the claim of a displaced one is among the
// others, and finds the room when that one has ended.
func (t *Table) Divide(entries []intake.Entry, now time.Time) (replacements, others []intake.Entry) {
	t.Tidy(now)
	if len(t.reserved) == 0 {
		return nil, entries
	}
	left := map[intake.Controller][]types.UID{}
	for uid, r := range t.reserved {
		if !r.left.IsZero() && !r.need.Owner.None() {
			left[r.need.Owner] = append(left[r.need.Owner], uid)
		}
	}
	for _, e := range entries {
		owner := intake.ControllerOf(e.Pod)
		if owner.None() || e.Gang.Name != "" || len(left[owner]) == 0 || t.awaitsClaim(e.Pod, left[owner]) {
			others = append(others, e)
			continue
		}
		list := left[owner]
		slices.Sort(list)
		delete(t.reserved, list[0])
		left[owner] = list[1:]
		replacements = append(replacements, e)
	}
	for _, e := range replacements {
		t.replaced[e.Pod.UID] = true
		t.exclude(e.Pod)
	}
	return replacements, others
}

// awaitsClaim reports whether one of the displaced pods still has a claim that the pod needs for itself: until it has ended, the scheduler lets the pod be on no node.
func (t *Table) awaitsClaim(pod *corev1.Pod, displaced []types.UID) bool {
	claims := disruption.VolumeClaims(pod)
	return slices.ContainsFunc(displaced, func(uid types.UID) bool {
		other := t.reserved[uid].need.Pod
		shared := slices.DeleteFunc(disruption.VolumeClaims(other), func(name string) bool { return !slices.Contains(claims, name) })
		return slices.ContainsFunc(shared, func(name string) bool { return t.OncePod(pod.Namespace, name) }) && t.Pod(catalog.PodRefOf(other)) != nil
	})
}

// Arrived ends the reservations of pods whose replacements have a place, on the node where it was reserved or elsewhere. It
// returns how many ended.
func (t *Table) Arrived(pods []*corev1.Pod, now time.Time) (ended int) {
	if len(pods) == 0 {
		return 0
	}
	t.Tidy(now)
	for _, pod := range pods {
		if !t.replaced[pod.UID] && t.endFor(pod) { // Else its reservation ended when it was planned.
			ended++
		}
		t.exclude(pod)
	}
	return ended
}

// endFor ends the reservation of one pod that left, for its replacement that has come: one on the replacement's node first.
func (t *Table) endFor(replacement *corev1.Pod) bool {
	owner := intake.ControllerOf(replacement)
	var unclaimed []types.UID
	for uid, r := range t.reserved {
		if !owner.None() && r.need.Owner == owner && !r.left.IsZero() && r.need.Pod.UID != replacement.UID {
			unclaimed = append(unclaimed, uid)
		}
	}
	if len(unclaimed) == 0 {
		return false
	}
	here := func(uid types.UID) int {
		if t.reserved[uid].node == replacement.Spec.NodeName {
			return 0
		}
		return 1
	}
	slices.SortFunc(unclaimed, func(x, y types.UID) int { return cmp.Or(cmp.Compare(here(x), here(y)), cmp.Compare(x, y)) })
	delete(t.reserved, unclaimed[0])
	return true
}

// exclude notes a pod that takes none of the room which is reserved for others of its owner.
func (t *Table) exclude(pod *corev1.Pod) {
	owner := intake.ControllerOf(pod)
	if owner.None() {
		return
	}
	for uid, r := range t.reserved {
		if r.need.Owner == owner && !r.beside[pod.UID] {
			r.beside = maps.Clone(r.beside) // What was published is read by others.
			r.beside[pod.UID] = true
			t.reserved[uid] = r
		}
	}
}

// DropTaken drops the reservations on nodes where other pods have taken of the room. nodeInfo returns a node of the planner's
// snapshot. It returns the name of one of the pods that it was reserved for; empty for none.
func (t *Table) DropTaken(nodeInfo func(name string) (fwk.NodeInfo, error)) (lost string) {
	board := t.reserved.board(nil)
	for _, node := range slices.Sorted(maps.Keys(board.rooms)) {
		info, err := nodeInfo(node)
		if err != nil || Starting(info.Node()) {
			continue // No pod takes room there.
		}
		if needs := board.Needs(&corev1.Pod{}, info, t.Left); !overdrawn(info, needs) && !conflicts(info, needs, t.Namespaces) {
			continue
		}
		for uid, r := range t.reserved {
			if r.node == node {
				lost = klog.KObj(r.need.Pod).String()
				delete(t.reserved, uid)
			}
		}
	}
	return lost
}
