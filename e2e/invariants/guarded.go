package invariants

import (
	"fmt"

	"github.com/slipway-k8s/slipway/e2e/observe"
)

// guardedInstances: each NodeClaim has Karpenter's finalizer from before its launch until its instance has ended, so that whoever
// deletes it ends the instance. The finalizer goes last: a NodeClaim that lacks it, or that is gone, has no living instance. No time
// is allowed for that, since the launcher waits for EC2 to show the instance as terminated. Whoever takes the evidence reads the
// histories before the instances.
func guardedInstances(e *Evidence) []string {
	live := e.live()
	var out []string
	for _, c := range e.Claims {
		id := instanceID(c)
		switch {
		case unguardedWhileThere(c):
			out = append(out, fmt.Sprintf("NodeClaim %s named launch %q and instance %q without the termination finalizer", c.Object.Name,
				c.Object.Annotations[launchTag], id))
		case live[id] && c.Deleted.Seen():
			out = append(out, fmt.Sprintf("instance %s runs while its NodeClaim %s is gone", id, c.Object.Name))
		case live[id] && c.Unguarded.Seen():
			out = append(out, fmt.Sprintf("instance %s runs while its NodeClaim %s has no termination finalizer", id, c.Object.Name))
		}
	}
	return out
}

// unguardedWhileThere reports whether the NodeClaim lacked the finalizer before anybody deleted it.
func unguardedWhileThere(c observe.Claim) bool {
	return c.Unguarded.Seen() && (!c.Leaving.Seen() || c.Unguarded.Before(c.Leaving))
}
