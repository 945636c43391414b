package plugin

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/provision"
)

// purpose is what a batch is planned for: pending pods, or the pods of nodes that terminate.
type purpose struct {
	// kind says which of the two, and for nodes that terminate whether they do so in a move.
	kind api.Purpose
	// terminating are the names of the nodes whose pods are planned as if they did not run, sorted; none for pending pods.
	terminating []string
	// avoid are nodes that terminate soon themselves: they are room only for pods that find no other.
	avoid map[string]bool
	// takes are the reserved capacity buffers whose room is free for the pods, by UID.
	takes map[string]bool
	// noLaunch means that no node is launched for the pods: they have room on nodes that exist, or none.
	noLaunch bool
	// asleep are the NodeClaims of standby buffers that are not woken for the pods, and noneWakes means that none is.
	asleep    map[string]bool
	noneWakes bool
	// standby is the UID of the standby buffer whose pods are planned; empty for all other pods.
	standby string
	// elsewhere means that nodes that exist are no room: the scheduler has refused the pods there, where plans saw room.
	elsewhere bool
}

// pendingPods is the purpose of a batch of pods that have no node yet.
func pendingPods() purpose { return purpose{kind: api.Purpose_PURPOSE_PENDING_PODS} }

// pending reports whether the pods have no node yet.
func (p purpose) pending() bool { return p.kind == api.Purpose_PURPOSE_PENDING_PODS }

// taking returns the purpose for pods that may take the room of reserved capacity buffers.
func (p purpose) taking(buffers map[string]bool) purpose {
	p.takes = buffers
	return p
}

// withoutExisting returns the purpose for pods that keep coming back from nodes that exist.
func (p purpose) withoutExisting() purpose {
	p.elsewhere = true
	return p
}

// bufferPods is the purpose of a batch of pods of capacity buffers.
func bufferPods() purpose { return purpose{kind: api.Purpose_PURPOSE_BUFFER} }

// bookedPods is the purpose of a batch of pods of buffers that had room for all of their pods once: what is lost is not launched again.
func bookedPods() purpose {
	return purpose{kind: api.Purpose_PURPOSE_BUFFER, noLaunch: true}
}

// standbyPods is the purpose of a batch of pods of one standby buffer: they have nodes of their own.
func standbyPods(buffer string) purpose {
	return purpose{kind: api.Purpose_PURPOSE_BUFFER, standby: buffer}
}

// sees reports whether a node in flight is room for the pods. Those of a standby buffer have its own nodes that sleep, and no other. Pods that may take
// its room wake them, unless the offering has no capacity: EC2 would not start the instance.
func (p purpose) sees(n catalog.InFlightNode, of catalog.State) bool {
	switch {
	case p.standby != "":
		return n.Sleeps() && n.Standby == p.standby && !n.Outdated
	case n.Sleeps():
		return !p.noneWakes && !p.asleep[n.NodeClaim] && p.takes[n.Standby] && !n.Stopping && (n.Phase >= catalog.PhaseNodeCreated || of.Offers(n))
	case n.Stalled():
		return len(p.terminating) == 0 // A move would wait for it.
	}
	return true
}

// keepsBuffers reports whether the room of capacity buffers is none for the pods: it is for pods that have no node, or lose it anyway.
func (p purpose) keepsBuffers() bool {
	return p.kind == api.Purpose_PURPOSE_BUFFER || p.kind == api.Purpose_PURPOSE_MOVE
}

// work is one batch with its plan, on its way to the launcher.
type work struct {
	purpose
	entries []intake.Entry
	byUID   map[types.UID]intake.Entry
	result  provision.Result
}

// planned is what became of a batch.
type planned struct {
	// claims are the names of the NodeClaims that were recorded.
	claims []string
	// unplaced are the pods of nodes that terminate for which no room was found.
	unplaced []plan.Unplaced
	// unrecorded are the nodes on which room was planned in vain.
	unrecorded []unrecordedNode
}

// unrecordedNode is a node on which room was planned that the launcher has not recorded.
type unrecordedNode struct {
	nodeClaim string
	members   []plan.Member
	// why it is not recorded, for a human.
	why string
}

// drop takes the pods that need no room any more out of the plan, and the nodes that are left without a pod: nothing is launched or woken for them.
func (w *work) drop(needless func(catalog.PodRef) bool) {
	needed := func(of []plan.Member) (members []plan.Member) {
		for _, m := range of {
			if m.Pods = slices.DeleteFunc(slices.Clone(m.Pods), needless); len(m.Pods) > 0 {
				members = append(members, m)
			}
		}
		return members
	}
	var claims []plan.Claim
	for _, c := range w.result.Plan.Claims {
		if c.Members = needed(c.Members); len(c.Members) > 0 {
			claims = append(claims, c)
		}
	}
	var placements []plan.Placement
	for _, p := range w.result.Plan.Placements {
		if p.Members = needed(p.Members); len(p.Members) > 0 {
			placements = append(placements, p)
		}
	}
	w.result.Plan.Claims, w.result.Plan.Placements = claims, placements
}

// unrecorded returns the nodes of the plan for which there is a reason that the launcher has not recorded them.
func (w *work) unrecorded(why func(nodeClaim string) string) []unrecordedNode {
	var out []unrecordedNode
	add := func(node string, members []plan.Member) {
		if text := why(node); text != "" {
			out = append(out, unrecordedNode{node, members, text})
		}
	}
	for _, c := range w.result.Plan.Claims {
		add(c.Name, c.Members)
	}
	for _, pl := range w.result.Plan.Placements {
		if pl.InFlight {
			add(pl.Node, pl.Members)
		}
	}
	return out
}

// with returns the two outcomes as one.
func (p planned) with(other planned) planned {
	return planned{
		claims: append(p.claims, other.claims...), unplaced: append(p.unplaced, other.unplaced...),
		unrecorded: append(p.unrecorded, other.unrecorded...),
	}
}

// setOf returns the set of the names.
func setOf(names []string) map[string]bool {
	out := make(map[string]bool, len(names))
	for _, name := range names {
		out[name] = true
	}
	return out
}
