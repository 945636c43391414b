// Package explain says, in words for a human, what becomes of a pod: what is launched for it, what it waits for, and
// per NodePool why nothing is. It is pure.
package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// noLaunch begins what slipway says of a pod for which nothing can be launched.
const noLaunch = "no node can be launched"

// SameReason says whether two messages give the same reason why nothing can be launched, whatever the existing nodes'
// filters said before it: their counts change with every node that comes or goes, and are no news.
func SameReason(a, b string) bool {
	_, whyA, foundA := strings.Cut(a, noLaunch)
	_, whyB, foundB := strings.Cut(b, noLaunch)
	return foundA && foundB && whyA == whyB
}

// Launching says which node is launched for a pod.
func Launching(c plan.Claim) string {
	return fmt.Sprintf("launching %s %s in %s (%.4f USD/h), NodeClaim %s",
		c.Expected.InstanceType, c.Expected.CapacityType, c.Expected.Zone, c.Expected.Price, c.Name)
}

// Joining says on which starting node a pod has its slot.
func Joining(n catalog.InFlightNode) string {
	return fmt.Sprintf("waits for %s %s in %s, NodeClaim %s, which is %s",
		n.InstanceType, n.CapacityType, n.Zone, n.NodeClaim, phase(n.Phase))
}

func phase(p catalog.Phase) string {
	switch p {
	case catalog.PhaseRecorded:
		return "being launched"
	case catalog.PhaseLaunched, catalog.PhaseNodeCreated:
		return "booting"
	case catalog.PhaseRegistered:
		return "joining"
	case catalog.PhaseReady:
		return "ready, but what the pod needs has not shown yet"
	}
	return "starting"
}

// Existing says on which node room was found.
func Existing(nodeName string) string {
	return fmt.Sprintf("node %s has room", nodeName)
}

// Unplaced says why no node is launched, per NodePool. verdict is the scheduler's message about existing nodes, empty
// where it is not known.
func Unplaced(u plan.Unplaced, verdict string) string {
	var parts []string
	for _, r := range u.Reasons {
		text := r.Message
		if text == "" {
			text = r.Code
		}
		if r.NodePool != "" {
			text = "NodePool " + r.NodePool + ": " + text
		}
		if !slices.Contains(parts, text) {
			parts = append(parts, text)
		}
	}
	text := noLaunch
	switch {
	case len(parts) > 0:
		text += ": " + strings.Join(parts, "; ")
	default:
		text += ": there is no NodePool"
	}
	return after(verdict, text)
}

// NotLaunchable says that launching a node would not help the pod, and why.
func NotLaunchable(why, verdict string) string {
	return after(verdict, "no node is launched: "+why)
}

// Unreachable says that nothing can be launched now.
func Unreachable(socket string, since time.Time, verdict string) string {
	text := fmt.Sprintf("no node can be launched: slipway-launcher cannot be reached at %s", socket)
	if !since.IsZero() {
		text += " since " + since.UTC().Format(time.RFC3339)
	}
	return after(verdict, text+"; will plan as soon as it is back")
}

// Refused says that the launcher did not record a claim.
func Refused(nodeClaim, reason, message string) string {
	return fmt.Sprintf("NodeClaim %s was refused: %s: %s; planning again", nodeClaim, reason, message)
}

// Failed says how a launch ended, and that the pod is planned again.
func Failed(nodeClaim, reason, message string) string {
	return fmt.Sprintf("NodeClaim %s failed: %s: %s; planning again", nodeClaim, reason, message)
}

// SetAside says that planning the pod went wrong.
func SetAside(cause string, until time.Time) string {
	return fmt.Sprintf("no node can be launched: planning this pod failed (%s); it is set aside until %s", cause, until.UTC().Format(time.RFC3339))
}

// BackingOff is the NodePool's reason while its launches keep failing.
func BackingOff(failures int, last string, until time.Time) string {
	return fmt.Sprintf("%d launches in a row failed, the last with: %s; next try after %s", failures, last, until.UTC().Format(time.TimeOnly))
}

func after(verdict, text string) string {
	verdict = strings.TrimRight(verdict, ". ")
	if verdict == "" {
		return text
	}
	return verdict + ". " + strings.ToUpper(text[:1]) + text[1:]
}
