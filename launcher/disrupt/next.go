package disrupt

import (
	"fmt"
	"slices"
	"time"
)

const (
	// wholeAtMost is the longest time from the start of a move to the deletion of its nodes, as in Karpenter. A node has five
	// minutes to join, and launches are retried. slowAtMost is that time where a node is launched that has fifteen minutes.
	wholeAtMost, slowAtMost = 10 * time.Minute, 20 * time.Minute
	// answerAtMost is the longest time that the scheduler may take for an answer.
	answerAtMost = 30 * time.Second
	// failingAtMost is the longest time for which cordoning the nodes may fail, as where an admission webhook refuses the taint. No other move is decided
	// meanwhile.
	failingAtMost = 30 * time.Second
	// protectedAtMost is the longest time that something may block a move whose reservations are made or whose nodes are
	// launched. A PodDisruptionBudget may allow evictions again in a moment, when pods that are being replaced become ready.
	protectedAtMost = 30 * time.Second
	// confirmWithin is the largest age of the scheduler's confirmation when the nodes are deleted.
	confirmWithin = 2 * time.Second
)

// Step is the next step of a move.
type Step string

// The steps of a move.
const (
	// Cordon cordons all nodes.
	Cordon Step = "cordon"
	// AskBusy asks the scheduler whether pods are assumed, nominated or promised on the nodes.
	AskBusy Step = "ask whether busy"
	// AskRoom asks the scheduler for reservations for the pods.
	AskRoom Step = "ask for room"
	// Await waits for the launched nodes, or until nothing blocks the move.
	Await Step = "await"
	// Delete deletes the NodeClaims.
	Delete Step = "delete"
	// CallOff removes what the move has done.
	CallOff Step = "call off"
	// Done means that all NodeClaims are being deleted.
	Done Step = "done"
)

// NodeFacts is what is observed of a node of the move.
type NodeFacts struct {
	// Name of the node.
	Name string
	// Terminating is true where the NodeClaim is being deleted or does not exist.
	Terminating bool
	// Foreign is true where the launcher may not disrupt the NodeClaim: a Karpenter has come back, and manages it.
	Foreign bool
	// Cordoned is true where the node has the disruption taint.
	Cordoned bool
	// Protected is why the node may not be disrupted: do-not-disrupt, a PodDisruptionBudget, a pod without a controller.
	// Empty means that nothing blocks it.
	Protected string
	// Arrived is a pod that came to the node lately, where the move is to leave such nodes alone; empty for none.
	Arrived string
	// Idle is true where no pod is assumed, nominated or promised on the node. The scheduler was asked after the cordon.
	Idle bool
	// Busy names a pod that is assumed, nominated or promised on the node; empty where there is none, or the scheduler was
	// not asked.
	Busy string
	// Uncovered is a pod of the node without a reservation; empty for none.
	Uncovered string
}

// ReplacementFacts is what is observed of a NodeClaim that was launched for the move.
type ReplacementFacts struct {
	// Name of the NodeClaim.
	Name string
	// Failed is true where the NodeClaim is being deleted or does not exist: its launch failed, or its node did not join.
	Failed bool
	// Initialized is true where pods can run on the node.
	Initialized bool
	// Slow is true for a machine that boots slowly (record.BootsSlowly).
	Slow bool
}

// Facts are what is observed of a move.
type Facts struct {
	// Running is the time since the start of the move.
	Running time.Duration
	// Nodes are the nodes to remove.
	Nodes []NodeFacts
	// Halfway is true where cordoning was begun and is not complete.
	Halfway bool
	// Deleting is true where deletion of the NodeClaims has begun.
	Deleting bool
	// Silent is how long the last question has been without an answer; zero where it was answered.
	Silent time.Duration
	// Failing is for how long cordoning the nodes has failed; zero where it does not. Failure is the last error.
	Failing time.Duration
	Failure string
	// Refused is why the scheduler makes no reservations; empty where it does, or was not asked.
	Refused string
	// Room is true where the pods that were asked for have reservations.
	Room bool
	// Confirmed is the time since the scheduler confirmed the reservations.
	Confirmed time.Duration
	// Protected is how long something has blocked the move; zero where nothing does.
	Protected time.Duration
	// Replacements are the NodeClaims launched for the move.
	Replacements []ReplacementFacts
}

// Next returns the next step of a move, and the reason where the move is called off.
func Next(f Facts) (Step, string) {
	terminating, remaining := f.terminating()
	switch {
	case remaining == "":
		return Done, ""
	case f.Running >= f.within():
		return CallOff, fmt.Sprintf("it was not done after %s", f.within())
	case f.foreign() != "":
		return CallOff, fmt.Sprintf("a running Karpenter manages node %s", f.foreign())
	case f.Deleting:
		return Delete, "" // The pods of all nodes have reservations.
	case terminating != "":
		return CallOff, fmt.Sprintf("node %s is being terminated for another reason", terminating)
	case f.Silent >= answerAtMost:
		return CallOff, "the scheduler did not answer"
	case f.Failing >= failingAtMost:
		return CallOff, "its nodes could not be cordoned: " + f.Failure
	case f.Refused != "":
		return CallOff, f.Refused
	case f.arrived() != "":
		return CallOff, f.arrived()
	}
	if why := f.protected(); why != "" {
		if !f.Room && len(f.Replacements) == 0 || f.Protected >= protectedAtMost {
			return CallOff, why
		}
		return Await, ""
	}
	return f.proceed()
}

// within is how long the move may take.
func (f Facts) within() time.Duration {
	if slices.ContainsFunc(f.Replacements, func(r ReplacementFacts) bool { return r.Slow }) {
		return slowAtMost
	}
	return wholeAtMost
}

// terminating returns a node that is being terminated, and one that is not.
func (f Facts) terminating() (terminating, remaining string) {
	for _, n := range f.Nodes {
		if n.Terminating {
			terminating = n.Name
		} else {
			remaining = n.Name
		}
	}
	return terminating, remaining
}

// foreign returns a node that a running Karpenter manages; empty for none.
func (f Facts) foreign() string {
	for _, n := range f.Nodes {
		if n.Foreign {
			return n.Name
		}
	}
	return ""
}

// protected returns what blocks the move; empty for nothing.
func (f Facts) protected() string {
	for _, n := range f.Nodes {
		if n.Protected != "" {
			return n.Protected
		}
	}
	return ""
}

// arrived returns which pod came to one of the nodes lately; empty for none.
func (f Facts) arrived() string {
	for _, n := range f.Nodes {
		if n.Arrived != "" {
			return n.Arrived
		}
	}
	return ""
}

// covered reports whether all pods have reservations.
func (f Facts) covered() bool {
	return f.Room && !slices.ContainsFunc(f.Nodes, func(n NodeFacts) bool { return n.Uncovered != "" })
}

// proceed returns the next step of a move that nothing blocks.
func (f Facts) proceed() (Step, string) {
	idle := true
	for _, n := range f.Nodes {
		if !n.Cordoned || f.Halfway {
			return Cordon, ""
		}
		if n.Busy != "" {
			return CallOff, n.Busy
		}
		idle = idle && n.Idle
	}
	switch {
	case !idle:
		return AskBusy, ""
	case !f.covered():
		return AskRoom, ""
	}
	waiting := false
	for _, r := range f.Replacements {
		if r.Failed {
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
