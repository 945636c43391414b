package reservations

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/slipway-k8s/slipway/internal/buffersize"
)

// Standing is room on a node for one pod, whichever of its takers comes. It is kept against all others, whatever their priority.
type Standing struct {
	// Of says whose room it is: the UID of a CapacityBuffer.
	Of string
	// Takers may take it.
	Takers *buffersize.Matcher
	// Need is the room.
	Need Need
}

// standing is the standing room by the names of the nodes.
type standing map[string][]Standing

// Standing returns the standing room on the node that the pod may not take.
func (b *Board) Standing(pod *corev1.Pod, info fwk.NodeInfo) []Need {
	rooms := b.standing[info.Node().Name]
	if !slices.ContainsFunc(rooms, func(s Standing) bool { return !s.Takers.Match(pod) }) {
		return nil
	}
	var out []Need
	for _, s := range untaken(rooms, info) {
		if !s.Takers.Match(pod) {
			out = append(out, s.Need)
		}
	}
	return out
}

// untaken returns the rooms that are free on the node. What has no room any more was taken by pods that may: nothing else gets it. So the rooms
// that pods of the node may take count as taken before the others.
func untaken(rooms []Standing, info fwk.NodeInfo) []Standing {
	needs := func(of []Standing) []Need {
		out := make([]Need, len(of))
		for i := range of {
			out[i] = of[i].Need
		}
		return out
	}
	if !overdrawn(info, needs(rooms)) {
		return rooms
	}
	matched := func(s Standing) int {
		if slices.ContainsFunc(info.GetPods(), func(p fwk.PodInfo) bool { return s.Takers.Match(p.GetPod()) }) {
			return 1
		}
		return 0
	}
	rooms = slices.Clone(rooms)
	slices.SortStableFunc(rooms, func(x, y Standing) int { return matched(x) - matched(y) })
	for len(rooms) > 0 && overdrawn(info, needs(rooms)) {
		rooms = rooms[:len(rooms)-1]
	}
	return rooms
}

// Signature says what standing room there is for the pod. Pods with equal signatures are kept off the same nodes, as far as it goes.
func (b *Board) Signature(pod *corev1.Pod) string {
	var of []string
	for i := range b.takers {
		if b.takers[i].Takers.Match(pod) {
			of = append(of, b.takers[i].Of)
		}
	}
	return strings.Join(of, ",")
}

// takers returns one room of each owner, sorted by owner.
func (s standing) takers() []Standing {
	seen := map[string]bool{}
	var out []Standing
	for _, rooms := range s {
		for _, r := range rooms {
			if !seen[r.Of] {
				seen[r.Of], out = true, append(out, r)
			}
		}
	}
	slices.SortFunc(out, func(x, y Standing) int { return strings.Compare(x.Of, y.Of) })
	return out
}

// lost reports whether a node has less standing room later.
func (s standing) lost(later standing) bool {
	for node, rooms := range s {
		left := map[string]int{}
		for _, r := range later[node] {
			left[r.Of]++
		}
		for _, r := range rooms {
			if left[r.Of]--; left[r.Of] < 0 {
				return true
			}
		}
	}
	return false
}
