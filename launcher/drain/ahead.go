package drain

import "time"

const (
	// askPatience is how long the scheduler is asked for a plan. A drain lasts at least 5 s; of a spot interruption's two minutes this is a
	// small part.
	askPatience = 5 * time.Second
	// launchPatience is how long the drain waits for the launch of the planned nodes, and for planning again what had no capacity:
	// CreateFleet answers within a few seconds. Nothing is urgent then.
	launchPatience = time.Minute
	// endingPatience is the same if EC2 takes the instance away in two minutes: pods need most of them to end gracefully.
	endingPatience = 10 * time.Second
	// nodePatience is how long the drain waits for the launched nodes to take pods: most boot within a minute.
	nodePatience = 2 * time.Minute
	// endReserve is what is left for evictions beside the pods' own grace periods, before the node ends.
	endReserve = 30 * time.Second
)

// Replacement is the state of the room for the pods of a terminating node.
type Replacement struct {
	// Waited is how long evictions have been delayed for it.
	Waited time.Duration
	// InstanceEnds means that EC2 takes the instance away soon.
	InstanceEnds bool
	// Late means that the termination grace period is over.
	Late bool
	// Answered means that the scheduler has planned.
	Answered bool
	// Launching is the number of planned NodeClaims whose CreateFleet call has not been answered, Failed that of deleted ones.
	Launching, Failed int
	// Booting is the number of planned nodes that EC2 has launched and that take no pods yet.
	Booting int
	// Serving means that one of the pods is Ready, so that something is lost while it has no node.
	Serving bool
	// Spare is how much later the evictions can begin: see Spare.
	Spare time.Duration
}

// Spare returns how much later evictions can begin without cutting short the graceful end of a pod. ends is when the node ends, zero for
// never; grace is the longest grace period of its pods that decides.
func Spare(now, ends time.Time, grace time.Duration) time.Duration {
	if ends.IsZero() {
		return nodePatience
	}
	return ends.Sub(now) - grace - endReserve
}

// Ahead is what to do before the first eviction.
type Ahead string

// The steps before the first eviction.
const (
	// Ask means to ask the scheduler to plan room.
	Ask Ahead = "ask"
	// AwaitLaunch means to wait for the launch of the planned nodes.
	AwaitLaunch Ahead = "await launch"
	// AwaitNodes means to wait until the planned nodes take pods.
	AwaitNodes Ahead = "await nodes"
	// Evict means to evict now.
	Evict Ahead = "evict"
)

// NextAhead returns the next step before pods are evicted: their room is planned, launched and ready first, unless that takes too long.
func NextAhead(r Replacement) Ahead {
	switch {
	case r.Late && (r.Answered || r.Waited > 0):
		return Evict
	case !r.Answered, r.Failed > 0, r.Launching > 0:
		if r.Waited >= patience(r) {
			return Evict
		}
		if !r.Answered || r.Failed > 0 {
			return Ask
		}
		return AwaitLaunch
	case r.Booting > 0 && r.Serving && r.Spare > 0 && r.Waited < nodePatience:
		return AwaitNodes
	}
	return Evict
}

// patience returns how long evictions wait for a plan, or for the launch of the planned nodes.
func patience(r Replacement) time.Duration {
	switch {
	case !r.Answered:
		return askPatience
	case r.InstanceEnds:
		return endingPatience
	case r.Spare <= 0:
		return 0
	}
	return launchPatience
}
