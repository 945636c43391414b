// Package explain writes the messages about a pod: what is launched for it, what it waits for, and per NodePool why nothing is
// launched. What a program reads back is typed: a Refusal, in a condition of its own. The package is pure.
package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// Message is what slipway reports about a pod: the node that it gets, or why none is launched. The zero Message reports nothing.
type Message struct {
	// Verdict is the scheduler's message about existing nodes, empty if it is not known.
	Verdict string
	// Refusal is why no node is launched. It is zero for a pod that has a place, or that is planned again.
	Refusal Refusal
	// place is the text of a pod without a Refusal.
	place string
}

// ReasonNodeAwaited is the reason of the condition PodScheduled of a pod that has a node on its way while a Karpenter runs: Karpenter launches
// nodes for all pods of reason Unschedulable, whichever scheduler they name.
const ReasonNodeAwaited = "NodeAwaited"

// Place returns a message without a Refusal.
func Place(text string) Message { return Message{place: text} }

// IsZero reports whether the message reports nothing.
func (m Message) IsZero() bool { return m.Text() == "" }

// Text returns slipway's part of the message. The verdict is about existing nodes: its counts change with every node, and are no
// news.
func (m Message) Text() string { return m.place + m.Refusal.Text() }

// String returns the message of the condition PodScheduled.
func (m Message) String() string {
	text := m.Text()
	verdict := strings.TrimRight(m.Verdict, ". ")
	if verdict == "" || text == "" {
		return text
	}
	return verdict + ". " + capital(text)
}

// Launching returns the message of a pod for which a node is launched.
func Launching(c plan.Claim) Message {
	return Place(fmt.Sprintf("launching %s %s in %s (%s), NodeClaim %s%s",
		c.Expected.InstanceType, c.Expected.CapacityType, c.Expected.Zone, catalog.PriceText(c.Expected.Price, c.Cost), c.Name, Expects(c.Expects)))
}

// mostRooms is how many Deployments a message names at most.
const mostRooms = 3

// Expects says for which pods that are expected a node has room; empty for none.
func Expects(rooms []plan.Room) string {
	var out strings.Builder
	for i, r := range rooms {
		if i == mostRooms {
			fmt.Fprintf(&out, " and for those of %s", catalog.CountText(len(rooms)-i, "other Deployment"))
			break
		}
		fmt.Fprintf(&out, ", with room for %s that Deployment %s is expected to add", catalog.CountText(r.Pods, "pod"), r.Workload)
	}
	return out.String()
}

// Joining returns the message of a pod that has its place on a node in flight.
func Joining(n catalog.InFlightNode) Message {
	return Place(fmt.Sprintf("waits for %s %s in %s, NodeClaim %s, which is %s",
		n.InstanceType, n.CapacityType, n.Zone, n.NodeClaim, phase(n.Phase)))
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
func Existing(nodeName string) Message { return Place(fmt.Sprintf("node %s has room", nodeName)) }

// Refused returns the message of a pod whose claim the launcher did not record.
func Refused(nodeClaim, reason, message string) Message {
	return Place(fmt.Sprintf("NodeClaim %s was refused: %s: %s; planning again", nodeClaim, reason, message))
}

// Unanswered returns the message of a pod whose claim the launcher may have recorded: it has not answered.
func Unanswered(nodeClaim string) Message {
	return Place(fmt.Sprintf("NodeClaim %s was sent, and the launcher did not answer: it shows what it has recorded once it can be reached", nodeClaim))
}

// Failed returns the message of a pod whose launch failed. The pod is planned again.
func Failed(nodeClaim, reason, message string) Message {
	return Place(fmt.Sprintf("NodeClaim %s failed: %s: %s; planning again", nodeClaim, reason, message))
}

// Unplaced returns the message of a pod for which no node is launched: the reasons per NodePool, with NodePools of the same
// reason together. verdict is the scheduler's message about existing nodes, empty if it is not known.
func Unplaced(u plan.Unplaced, verdict string) Message {
	return Message{Verdict: verdict, Refusal: refusalOf(u.Reasons)}
}

// GangWaits returns the message of a pod that waits for others of its gang. lacking is their number.
func GangWaits(gang string, lacking int, verdict string) Message {
	return refused(CodeAwaitsGang, fmt.Sprintf("slipway waits for %s of gang %s before it plans nodes for it", catalog.CountText(lacking, "more pod"), gang), verdict)
}

// NotLaunchable returns the message of a pod that a new node would not help.
func NotLaunchable(why, verdict string) Message { return refused(CodeNotLaunchable, why, verdict) }

// AwaitsRoom returns the message of a pod that gets the room of a pod that terminates.
func AwaitsRoom(terminating, nodeName string) Message {
	return refused(CodeAwaitsTerminatingPod, fmt.Sprintf("no node is launched while pod %s ends, whose room it gets on node %s", terminating, nodeName), "")
}

// Asleep returns the message of a pod whose namespace sleeps.
func Asleep(namespace string, until time.Time) Message {
	return refused(CodeAsleep, fmt.Sprintf("namespace %s sleeps until %s", namespace, until.UTC().Format(time.RFC3339)), "")
}

// Unreachable returns the message of a pod while the launcher cannot be reached.
func Unreachable(socket string, since time.Time, verdict string) Message {
	text := "slipway-launcher cannot be reached at " + socket
	if !since.IsZero() {
		text += " since " + since.UTC().Format(time.RFC3339)
	}
	return refused(CodeLauncherUnreachable, text+"; will plan as soon as it is back", verdict)
}

// Incompatible returns the message of a pod while the two containers are of releases that do not go together. launcher and scheduler
// are the versions of the contract that they speak.
func Incompatible(launcher, scheduler, verdict string) Message {
	return refused(CodeVersionMismatch, fmt.Sprintf("slipway-launcher speaks version %s of the contract between slipway's containers, "+
		"slipway-scheduler version %s: run both from one release", launcher, scheduler), verdict)
}

// SetAside returns the message of a pod whose planning failed.
func SetAside(cause string, until time.Time) Message {
	return refused(CodePlanningFailed, fmt.Sprintf("planning this pod failed (%s); it is planned again after %s", cause, until.UTC().Format(time.RFC3339)), "")
}

// Delayed returns the message of a pod if the last node launched for it, or for pods of its owner, ran none of them. why is empty
// if it is not known. until is when the next node may be launched.
func Delayed(nodeClaim, why string, until time.Time, verdict string) Message {
	text := fmt.Sprintf("the node launched for this pod (NodeClaim %s) could not run it", nodeClaim)
	if why != "" {
		text += ": " + why
	}
	return refused(CodeLaunchDelayed, fmt.Sprintf("%s; next launch after %s", text, until.UTC().Format(time.TimeOnly)), verdict)
}

// GangDelayed returns the message of a pod whose gang gave the nodes back that were launched for it. why is the reason, until is when the next
// node may be launched.
func GangDelayed(why string, until time.Time, verdict string) Message {
	return refused(CodeLaunchDelayed, fmt.Sprintf("%s; its NodeClaims were given back; next launch after %s", why, until.UTC().Format(time.TimeOnly)), verdict)
}

// BackingOff returns the NodePool's reason while its launches keep failing.
func BackingOff(failures int, last string, until time.Time) string {
	return fmt.Sprintf("%d launches in a row failed, the last with: %s; next try after %s", failures, last, until.UTC().Format(time.TimeOnly))
}

// refused returns a message with one reason, which no plan decided.
func refused(code, text, verdict string) Message {
	return Message{Verdict: verdict, Refusal: Refusal{Code: code, Reasons: []Reason{{Message: text}}}}
}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
