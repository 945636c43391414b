package reservations

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/slipway-k8s/slipway/plugin/intake"
)

// Board lists the reservations by the names of their nodes, for those outside the planner's goroutine. It never changes.
type Board struct {
	rooms map[string][]reservation
	// claims are the nodes in flight that have reserved room, by NodeClaim: their Node may join before its name is known here.
	claims map[string]bool
	// owners have room reserved for their pods.
	owners map[intake.Controller]bool
	// standing is room for whichever pods may take it, takers one of it for each owner.
	standing standing
	takers   []Standing
	// freed is how many times room had become free.
	freed int
}

// board returns the reservations as others see them.
func (s Snapshot) board(free standing) *Board {
	out := &Board{rooms: map[string][]reservation{}, claims: map[string]bool{}, owners: map[intake.Controller]bool{}, standing: free, takers: free.takers()}
	for _, r := range s {
		if r.claim != "" {
			out.claims[r.claim] = true
		}
		if r.node == "" {
			continue
		}
		out.owners[r.need.Owner] = true
		out.rooms[r.node] = append(out.rooms[r.node], r)
	}
	for _, rooms := range out.rooms {
		slices.SortFunc(rooms, func(x, y reservation) int { return cmp.Compare(x.need.Pod.UID, y.need.Pod.UID) })
	}
	return out
}

// Empty reports whether nothing is reserved on any node for displaced pods.
func (b *Board) Empty() bool { return len(b.rooms) == 0 }

// Stands reports whether there is standing room on any node.
func (b *Board) Stands() bool { return len(b.standing) > 0 }

// Freed returns how many times room had become free that was reserved: what an earlier board kept off may fit where a later one has another number.
func (b *Board) Freed() int { return b.freed }

// On reports whether room is reserved on the node for displaced pods, by its NodeClaim or its name.
func (b *Board) On(claim, node string) bool { return b.claims[claim] || len(b.rooms[node]) > 0 }

// For reports whether room is reserved for pods of the pod's controller.
func (b *Board) For(pod *corev1.Pod) bool {
	owner := intake.ControllerOf(pod)
	return !owner.None() && b.owners[owner]
}

// lost reports whether the later board lacks a reservation of this one.
func (b *Board) lost(later *Board) bool {
	for node, rooms := range b.rooms {
		for _, r := range rooms {
			if !slices.ContainsFunc(later.rooms[node], func(other reservation) bool { return other.need.Pod.UID == r.need.Pod.UID }) {
				return true
			}
		}
	}
	return b.standing.lost(later.standing)
}

// Needs returns what is reserved on the node against the pod. A replacement pod may take its reservation: one for each pod of
// its owner that has left, less those that others of the owner have taken since. left reports whether a pod has left its node.
func (b *Board) Needs(pod *corev1.Pod, info fwk.NodeInfo, left func(*corev1.Pod) bool) []Need {
	rooms := b.rooms[info.Node().Name]
	if len(rooms) == 0 {
		return nil
	}
	var out []Need
	own, done := intake.ControllerOf(pod), map[intake.Controller]bool{}
	for i := range rooms {
		owner := rooms[i].need.Owner
		if done[owner] {
			continue
		}
		done[owner] = true
		free := taken(rooms[i:], info)
		if owner == own && !owner.None() {
			free += claimable(rooms[i:], free, left)
		}
		for _, r := range rooms[i:] {
			switch {
			case r.need.Owner != owner, r.need.Pod.UID == pod.UID, owner.None() && left(r.need.Pod):
			case free > 0:
				free--
			default:
				out = append(out, r.need)
			}
		}
	}
	return out
}

// Takes reports whether a replacement pod may take room that is reserved on the node for a pod of its owner.
func (b *Board) Takes(pod *corev1.Pod, info fwk.NodeInfo, left func(*corev1.Pod) bool) bool {
	owner := intake.ControllerOf(pod)
	if owner.None() {
		return false
	}
	rooms := b.rooms[info.Node().Name]
	first := slices.IndexFunc(rooms, func(r reservation) bool { return r.need.Owner == owner })
	return first >= 0 && claimable(rooms[first:], taken(rooms[first:], info), left) > 0
}

// claimable returns 1 where more pods of the first room's owner have left than replacements came, else 0.
func claimable(rooms []reservation, taken int, left func(*corev1.Pod) bool) int {
	gone := 0
	for _, r := range rooms {
		if r.need.Owner == rooms[0].need.Owner && left(r.need.Pod) {
			gone++
		}
	}
	return min(max(gone-taken, 0), 1)
}

// taken counts the pods of the first room's owner that came to the node since its room is reserved.
func taken(rooms []reservation, info fwk.NodeInfo) int {
	owner, beside := rooms[0].need.Owner, rooms[0].beside
	if owner.None() {
		return 0
	}
	n := 0
	for _, pi := range info.GetPods() {
		p := pi.GetPod()
		if intake.ControllerOf(p) == owner && !beside[p.UID] && p.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}
