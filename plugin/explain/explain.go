// Package explain writes the messages about a pod: what is launched for it, what it waits for, and per NodePool why nothing is
// launched. It is pure.
package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// noLaunch begins slipway's message about a pod for which nothing can be launched.
const noLaunch = "no node can be launched"

// maxReasons bounds the reasons in one message: each watcher of pods receives a pod's condition in full.
const maxReasons = 20

// Reason returns the part of a message from the reason why nothing is launched. The part before it is about existing nodes: its
// counts change with every node, and are no news. Reason returns other messages whole.
func Reason(message string) string {
	if i := noLaunchAt(message); i >= 0 {
		return message[i+len(noLaunch):]
	}
	return message
}

// noLaunchAt returns where slipway's part of the message begins, -1 for nowhere.
func noLaunchAt(message string) int {
	return max(strings.Index(message, noLaunch), strings.Index(message, capital(noLaunch)))
}

// Parse reads the message of a pod for which no node can be launched: the scheduler's message about existing nodes, and the
// reasons per NodePool. ok is false for any other message.
func Parse(message string) (verdict string, reasons []plan.Reason, ok bool) {
	i := noLaunchAt(message)
	if i < 0 {
		return "", nil, false
	}
	verdict = strings.TrimRight(message[:i], " ")
	text := strings.TrimPrefix(message[i+len(noLaunch):], ": ")
	for text != "" {
		part := text
		text = ""
		if cut := strings.Index(part, "; NodePool"); cut >= 0 {
			part, text = part[:cut], part[cut+len("; "):]
		}
		head, why, found := strings.Cut(part, ": ")
		pools, one := strings.CutPrefix(head, "NodePool ")
		if !one {
			pools, one = strings.CutPrefix(head, "NodePools ")
		}
		if !found || !one {
			reasons = append(reasons, plan.Reason{Message: part})
			continue
		}
		for pool := range strings.SplitSeq(pools, ", ") {
			reasons = append(reasons, plan.Reason{NodePool: pool, Message: why})
		}
	}
	return verdict, reasons, true
}

// Launching returns the message of a pod for which a node is launched.
func Launching(c plan.Claim) string {
	return fmt.Sprintf("launching %s %s in %s (%.4f USD/h), NodeClaim %s",
		c.Expected.InstanceType, c.Expected.CapacityType, c.Expected.Zone, c.Expected.Price, c.Name)
}

// Joining returns the message of a pod that has its place on a node in flight.
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

// Existing returns the message of a pod for which an existing node has room.
func Existing(nodeName string) string {
	return fmt.Sprintf("node %s has room", nodeName)
}

// Unplaced returns the message of a pod for which no node is launched: the reasons per NodePool, with NodePools of the same
// reason together. verdict is the scheduler's message about existing nodes, empty if it is not known.
func Unplaced(u plan.Unplaced, verdict string) string {
	var order []string
	pools := map[string][]string{}
	for _, r := range u.Reasons {
		text := r.Message
		if text == "" {
			text = r.Code
		}
		if _, ok := pools[text]; !ok {
			order = append(order, text)
		}
		if !slices.Contains(pools[text], r.NodePool) {
			pools[text] = append(pools[text], r.NodePool)
		}
	}
	var parts []string
	for i, text := range order {
		if i == maxReasons {
			parts = append(parts, fmt.Sprintf("and %d reasons more", len(order)-i))
			break
		}
		names := slices.DeleteFunc(pools[text], func(name string) bool { return name == "" })
		switch len(names) {
		case 0:
		case 1:
			text = "NodePool " + names[0] + ": " + text
		default:
			text = "NodePools " + strings.Join(names, ", ") + ": " + text
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		parts = append(parts, "there is no NodePool")
	}
	return after(verdict, noLaunch+": "+strings.Join(parts, "; "))
}

// GangWaits returns the message of a pod that waits for others of its gang. lacking is their number.
func GangWaits(gang string, lacking int, verdict string) string {
	return after(verdict, fmt.Sprintf("slipway waits for %d more pods of gang %s before it plans nodes for it", lacking, gang))
}

// NotLaunchable returns the message of a pod that a new node would not help.
func NotLaunchable(why, verdict string) string {
	return after(verdict, "no node is launched: "+why)
}

// Unreachable returns the message of a pod while the launcher cannot be reached.
func Unreachable(socket string, since time.Time, verdict string) string {
	text := fmt.Sprintf("no node can be launched: slipway-launcher cannot be reached at %s", socket)
	if !since.IsZero() {
		text += " since " + since.UTC().Format(time.RFC3339)
	}
	return after(verdict, text+"; will plan as soon as it is back")
}

// Incompatible returns the message of a pod while the two containers are of releases that do not go together. launcher and scheduler
// are the versions of the contract that they speak.
func Incompatible(launcher, scheduler, verdict string) string {
	return after(verdict, fmt.Sprintf("%s: slipway-launcher speaks version %s of the contract between slipway's containers, "+
		"slipway-scheduler version %s: run both from one release", noLaunch, launcher, scheduler))
}

// Refused returns the message of a pod whose claim the launcher did not record.
func Refused(nodeClaim, reason, message string) string {
	return fmt.Sprintf("NodeClaim %s was refused: %s: %s; planning again", nodeClaim, reason, message)
}

// Failed returns the message of a pod whose launch failed. The pod is planned again.
func Failed(nodeClaim, reason, message string) string {
	return fmt.Sprintf("NodeClaim %s failed: %s: %s; planning again", nodeClaim, reason, message)
}

// SetAside returns the message of a pod whose planning failed.
func SetAside(cause string, until time.Time) string {
	return fmt.Sprintf("no node can be launched: planning this pod failed (%s); it is planned again after %s", cause, until.UTC().Format(time.RFC3339))
}

// Delayed returns the message of a pod if the last node launched for it, or for pods of its owner, ran none of them. why is empty
// if it is not known. until is when the next node may be launched.
func Delayed(nodeClaim, why string, until time.Time, verdict string) string {
	text := fmt.Sprintf("%s: the node launched for this pod (NodeClaim %s) could not run it", noLaunch, nodeClaim)
	if why != "" {
		text += ": " + why
	}
	return after(verdict, fmt.Sprintf("%s; next launch after %s", text, until.UTC().Format(time.TimeOnly)))
}

// BackingOff returns the NodePool's reason while its launches keep failing.
func BackingOff(failures int, last string, until time.Time) string {
	return fmt.Sprintf("%d launches in a row failed, the last with: %s; next try after %s", failures, last, until.UTC().Format(time.TimeOnly))
}

func after(verdict, text string) string {
	verdict = strings.TrimRight(verdict, ". ")
	if verdict == "" {
		return text
	}
	return verdict + ". " + capital(text)
}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
