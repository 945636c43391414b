package invariants

import (
	"fmt"

	"github.com/slipway-k8s/slipway/e2e/observe"
)

// guardedInstances finds instances, living or stopped, whose NodeClaim lacks Karpenter's finalizer or does not exist. The finalizer is
// set before the launch and removed after the instance has terminated, so that deleting the NodeClaim terminates the
// instance. No delay is allowed, since the launcher waits for EC2 to report the instance as terminated. The evidence's
// histories must be read before its instances.
func guardedInstances(e *Evidence) []string {
	there := e.there()
	var out []string
	for _, c := range e.Claims {
		id := instanceID(c)
		switch {
		case unguardedWhileThere(c):
			out = append(out, fmt.Sprintf("NodeClaim %s named launch %q and instance %q without the termination finalizer", c.Object.Name,
				c.Object.Annotations[launchTag], id))
		case there[id] && c.Deleted.Seen():
			out = append(out, fmt.Sprintf("instance %s is there while its NodeClaim %s is gone", id, c.Object.Name))
		case there[id] && c.Unguarded.Seen():
			out = append(out, fmt.Sprintf("instance %s is there while its NodeClaim %s has no termination finalizer", id, c.Object.Name))
		}
	}
	return out
}

// unguardedWhileThere reports whether the NodeClaim lacked the finalizer before its deletion was requested.
func unguardedWhileThere(c observe.Claim) bool {
	return c.Unguarded.Seen() && (!c.Terminating.Seen() || c.Unguarded.Before(c.Terminating))
}
