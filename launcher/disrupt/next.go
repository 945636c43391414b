package disrupt

import (
	"fmt"
	"time"
)

const (
	// wholeAtMost is how long a move may take until its nodes are deleted: nodes have five minutes to join, and their launches are
	// tried more than once.
	wholeAtMost = 15 * time.Minute
	// answerAtMost is how long the scheduler may be silent.
	answerAtMost = 30 * time.Second
	// protectedAtMost is how long something may speak against the move once its room is kept or paid: a PodDisruptionBudget whose pods
	// are just being replaced lets them go again in a moment.
	protectedAtMost = 30 * time.Second
	// confirmWithin is how fresh the scheduler's word about the room has to be when the nodes go.
	confirmWithin = 2 * time.Second
)

// Step is what a move does next.
type Step string

// The steps of a move.
const (
	// Cordon all nodes.
	Cordon Step = "cordon"
	// AskBusy asks the scheduler whether it has anything for the nodes.
	AskBusy Step = "ask whether busy"
	// AskRoom asks the scheduler for room for the pods.
	AskRoom Step = "ask for room"
	// Await the nodes that were launched, or that nothing speaks against the move any more.
	Await Step = "await"
	// Delete the NodeClaims.
	Delete Step = "delete"
	// CallOff takes everything back.
	CallOff Step = "call off"
	// Done says that all NodeClaims are being deleted.
	Done Step = "done"
)

// NodeFacts is what is seen of a node that is to go.
type NodeFacts struct {
	// Name of the node.
	Name string
	// Leaving says that its NodeClaim is being deleted, or gone.
	Leaving bool
	// Cordoned says that it has the disruption taint.
	Cordoned bool
	// Protected is why it may not be disrupted: do-not-disrupt, a PodDisruptionBudget, a pod without a controller; empty for nothing.
	Protected string
	// Idle says that the scheduler has nothing for it; asked after the cordon.
	Idle bool
	// Busy is what the scheduler has for it; empty for nothing, or where it was not asked.
	Busy string
	// Uncovered is a pod of it that no room was asked for; empty for none.
	Uncovered string
}

// ReplacementFacts is what is seen of a NodeClaim that was launched for the move.
type ReplacementFacts struct {
	// Name of the NodeClaim.
	Name string
	// Gone says that it is being deleted, or gone: its launch failed, or its node did not join.
	Gone bool
	// Initialized says that pods can run there.
	Initialized bool
}

// Facts are what is seen of a move.
type Facts struct {
	// Running is for how long the move has.
	Running time.Duration
	// Nodes that are to go.
	Nodes []NodeFacts
	// Halfway says that the cordons were not all made and told: something failed in between.
	Halfway bool
	// Deleting says that the deletion of the NodeClaims was begun.
	Deleting bool
	// Silent is for how long the scheduler has left the last question unanswered; zero where it answered.
	Silent time.Duration
	// Refused is why the scheduler gives no room; empty where it does, or was not asked.
	Refused string
	// Room says that there is room for the pods that were asked for, Confirmed how long ago the scheduler said so.
	Room bool
	// Confirmed as above.
	Confirmed time.Duration
	// Protected is for how long something speaks against the move now; zero for nothing.
	Protected time.Duration
	// Replacements are the NodeClaims that were launched.
	Replacements []ReplacementFacts
}

// Next says what a move does next, and why where it is called off.
func Next(f Facts) (Step, string) {
	leaving, staying := f.leaving()
	switch {
	case staying == "":
		return Done, ""
	case f.Running >= wholeAtMost:
		return CallOff, fmt.Sprintf("it was not done after %s", wholeAtMost)
	case f.Deleting:
		return Delete, "" // Some are gone: their pods have their room, and so have those of the others.
	case leaving != "":
		return CallOff, fmt.Sprintf("node %s leaves for another reason", leaving)
	case f.Silent >= answerAtMost:
		return CallOff, "the scheduler did not answer"
	case f.Refused != "":
		return CallOff, f.Refused
	}
	if why := f.protected(); why != "" {
		if !f.Room && len(f.Replacements) == 0 || f.Protected >= protectedAtMost {
			return CallOff, why
		}
		return Await, ""
	}
	return f.onward()
}

// leaving names a node that leaves already, and one that does not.
func (f Facts) leaving() (leaving, staying string) {
	for _, n := range f.Nodes {
		if n.Leaving {
			leaving = n.Name
		} else {
			staying = n.Name
		}
	}
	return leaving, staying
}

// protected is what speaks against disrupting the nodes.
func (f Facts) protected() string {
	for _, n := range f.Nodes {
		if n.Protected != "" {
			return n.Protected
		}
	}
	return ""
}

// onward is the way of a move that nothing speaks against.
func (f Facts) onward() (Step, string) {
	idle, covered := true, f.Room
	for _, n := range f.Nodes {
		if !n.Cordoned || f.Halfway {
			return Cordon, ""
		}
		if n.Busy != "" {
			return CallOff, n.Busy
		}
		idle = idle && n.Idle
		covered = covered && n.Uncovered == ""
	}
	switch {
	case !idle:
		return AskBusy, ""
	case !covered:
		return AskRoom, ""
	}
	waiting := false
	for _, r := range f.Replacements {
		if r.Gone {
			return CallOff, fmt.Sprintf("NodeClaim %s, launched for its pods, failed", r.Name)
		}
		waiting = waiting || !r.Initialized
	}
	switch {
	case waiting:
		return Await, ""
	case f.Confirmed > confirmWithin:
		return AskRoom, ""
	}
	return Delete, ""
}
