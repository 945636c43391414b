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

// maxReasons bounds the reasons in one message: a pod's condition is read in full by everybody who watches pods.
const maxReasons = 20

// Reason is the part of a message that tells why nothing is launched, whatever the existing nodes' filters said before it: their
// counts change with every node that comes or goes, and are no news. It is the whole message where that says something else.
func Reason(message string) string {
	if i := noLaunchAt(message); i >= 0 {
		return message[i+len(noLaunch):]
	}
	return message
}

// noLaunchAt is where slipway's part of the message begins, -1 for nowhere.
func noLaunchAt(message string) int {
	return max(strings.Index(message, noLaunch), strings.Index(message, capital(noLaunch)))
}

// Parse reads the message of a pod for which no node can be launched: what the scheduler says of the nodes that exist, and the
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

// Unplaced says why no node is launched, per NodePool; NodePools with the same reason together. verdict is the scheduler's
// message about existing nodes, empty where it is not known.
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

// GangWaits says that a pod waits for others of its gang, and how many.
func GangWaits(gang string, lacking int, verdict string) string {
	return after(verdict, fmt.Sprintf("slipway waits for %d more pods of gang %s before it plans nodes for it", lacking, gang))
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

// Incompatible returns the message of a pod while the two containers are of releases that do not go together. launcher and scheduler
// are the versions of the contract that they speak.
func Incompatible(launcher, scheduler, verdict string) string {
	return after(verdict, fmt.Sprintf("%s: slipway-launcher speaks version %s of the contract between slipway's containers, "+
		"slipway-scheduler version %s: run both from one release", noLaunch, launcher, scheduler))
}

// Refused says that the launcher did not record a claim.
func Refused(nodeClaim, reason, message string) string {
	return fmt.Sprintf("NodeClaim %s was refused: %s: %s; planning again", nodeClaim, reason, message)
}

// Failed says how a launch ended, and that the pod is planned again.
func Failed(nodeClaim, reason, message string) string {
	return fmt.Sprintf("NodeClaim %s failed: %s: %s; planning again", nodeClaim, reason, message)
}

// SetAside returns the message of a pod whose planning failed.
func SetAside(cause string, until time.Time) string {
	return fmt.Sprintf("no node can be launched: planning this pod failed (%s); it is planned again after %s", cause, until.UTC().Format(time.RFC3339))
}

// Delayed says that the last node launched for a pod or its siblings ran none of them, why where that is known, and when the next
// may be launched.
func Delayed(nodeClaim, why string, until time.Time, verdict string) string {
	text := fmt.Sprintf("%s: the node launched for this pod (NodeClaim %s) could not run it", noLaunch, nodeClaim)
	if why != "" {
		text += ": " + why
	}
	return after(verdict, fmt.Sprintf("%s; next launch after %s", text, until.UTC().Format(time.TimeOnly)))
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
	return verdict + ". " + capital(text)
}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
