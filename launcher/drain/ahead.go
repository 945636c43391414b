package drain

import "time"

const (
	// askPatience is how long the scheduler is asked for a plan. A drain lasts 5 s at least; of a spot interruption's two
	// minutes it takes little.
	askPatience = 5 * time.Second
	// launchPatience is how long the launch of what it planned is waited for, and what had no capacity is planned anew: CreateFleet
	// answers within a few seconds. Nobody presses then.
	launchPatience = time.Minute
	// doomedPatience is the same where EC2 takes the instance in two minutes: pods need most of them to end in good order.
	doomedPatience = 10 * time.Second
)

// Replacement is what is known of the room for the pods of a node that leaves.
type Replacement struct {
	// Waited is how long evictions have been held back for it.
	Waited time.Duration
	// Doomed says that EC2 takes the instance soon.
	Doomed bool
	// Late says that the termination grace period is over.
	Late bool
	// Answered says that the scheduler has planned.
	Answered bool
	// Launching counts the planned NodeClaims whose CreateFleet call has not been answered, Failed those that are gone again.
	Launching, Failed int
}

// Ahead is what to do before the first eviction.
type Ahead string

// The steps before the first eviction.
const (
	// Ask the scheduler to plan room.
	Ask Ahead = "ask"
	// AwaitLaunch of what it planned.
	AwaitLaunch Ahead = "await launch"
	// Evict now.
	Evict Ahead = "evict"
)

// NextAhead says what is next before pods are evicted: their room is planned and asked for at EC2 first, as long as that does
// not take too long.
func NextAhead(r Replacement) Ahead {
	patience := launchPatience
	if r.Doomed {
		patience = doomedPatience
	}
	switch {
	case r.Late && (r.Answered || r.Waited > 0):
		return Evict
	case r.Waited >= patience, !r.Answered && r.Waited >= askPatience:
		return Evict
	case !r.Answered, r.Failed > 0:
		return Ask
	case r.Launching > 0:
		return AwaitLaunch
	}
	return Evict
}
