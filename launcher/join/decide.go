package join

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/bind"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// Observed is all that a decision about one NodeClaim depends on.
type Observed struct {
	// Now is the time of the observation.
	Now time.Time
	// Claim that has an instance.
	Claim *karpv1.NodeClaim
	// Node of the instance; nil where there is none.
	Node *corev1.Node
	// Slots are the pods promised to the claim.
	Slots []Slot
	// OnNode are the pods bound to the node.
	OnNode []*corev1.Pod
	// ReadySince is when the node was first seen Ready; zero where it was not.
	ReadySince time.Time
	// Answered are the pods whose binding at Ready was answered, or refused by Check.
	Answered map[types.UID]bool
	// Known is since when adopted pods are nominated to the node, or bound to it; those that are not are missing.
	Known map[types.UID]time.Time
	// Placeholder is the Node that the launcher created where the kubelet has joined under another name; nil where it has not.
	Placeholder *corev1.Node
	// Duplicate names another Node with the same providerID whose kubelet has joined; empty where there is none.
	Duplicate string
	// Instance is the state of the instance where EC2 was asked; empty where it was not, or did not know.
	Instance cloud.InstanceState
	// NetworkAtStart says that the nodes of the NodePool have their network ready when their kubelet starts.
	NetworkAtStart bool
	// SwitchedOff is why nothing is bound ahead of the scheduler in the NodePool; empty where it is.
	SwitchedOff string
	// DaemonKeptOff names a DaemonSet that fits the node and that our taint alone keeps off; empty where there is none.
	DaemonKeptOff string
	// Settings of the launcher.
	Settings Settings
}

// Slot is one promised pod.
type Slot struct {
	// Ref is the promise.
	Ref catalog.PodRef
	// Pod as the API server has it; nil where it is gone.
	Pod *corev1.Pod
	// UnboundVolume names a volume claim of the pod that is not bound; empty where there is none.
	UnboundVolume string
}

// Settings are what a user may choose about joining.
type Settings struct {
	// BindAt is when promised pods are bound.
	BindAt bind.Setting
	// JoinDeadline is how long a node may take to become Ready while pods are promised to it; EmptyDeadline while none are.
	JoinDeadline, EmptyDeadline time.Duration
}

// The times of joining.
const (
	// leaseEvery is how often the launcher renews a booting node's Lease, as the kubelet does (a quarter of 40 s).
	leaseEvery = 10 * time.Second
	// untaintAfter is when the startup taint goes whatever the bindings answered.
	untaintAfter = 2 * time.Second
	// knownFor is how long their own scheduler must have been able to see where adopted pods go before it may use the node: its
	// caches follow the API server by less.
	knownFor = time.Second
	// knownWithin is when the startup taint goes whether it has or not: two schedulers may then want the same room.
	knownWithin = 5 * time.Second
	// daemonPatience is how long a registered node may stay unready while our taint keeps off a DaemonSet that it may be
	// waiting for.
	daemonPatience = 20 * time.Second
)

// Decision is what to do now, in the order of the fields, and when to look again without an event.
type Decision struct {
	// End is the reason to end the claim, EndMessage what a human should know; everything else is empty then.
	End, EndMessage string
	// CreateNode says that the Node is missing.
	CreateNode bool
	// RemovePlaceholder says that the Node of the wrong name goes, and the pods that were bound to it.
	RemovePlaceholder bool
	// Bind are the pods to bind now.
	Bind []bind.Binding
	// Refused are pods that the Node as it is would not run: left to the scheduler, with the reason.
	Refused map[types.UID]string
	// RenewLease says that the kubelet has not posted a status yet.
	RenewLease bool
	// Register says that the kubelet has joined and that the claim does not say so yet.
	Register bool
	// Untaint says that the startup taint goes.
	Untaint bool
	// Initialize says that the node is an ordinary one from now on.
	Initialize bool
	// Unregistered is why the kubelet has not joined, as Karpenter's reason of the condition Registered; empty where it has.
	Unregistered string
	// Waiting is why the node is not initialized, as Karpenter's condition reason and a message.
	Waiting, Message string
	// Plan is when each promised pod is bound, for those who want to know.
	Plan []record.Bindings
	// After is when to look again; zero for at the next event.
	After time.Duration
}

// Decide says what to do for one claim.
func Decide(o Observed) Decision {
	have := o.Claim.StatusConditions()
	registered := have.Get(karpv1.ConditionTypeRegistered).IsTrue()
	if have.Get(karpv1.ConditionTypeInitialized).IsTrue() {
		return Decision{}
	}
	ready := o.Node != nil && conditions.NodeReady(o.Node)
	left := deadline(o).Sub(o.Now)
	if reason, message := failure(o, left); reason != "" {
		return Decision{End: reason, EndMessage: message}
	}
	switch {
	case o.Node == nil && registered:
		return Decision{After: left} // Somebody deleted it: the end of its NodeClaim is on its way.
	case o.Node == nil:
		return Decision{CreateNode: true, Unregistered: notFound, After: left}
	case o.Duplicate != "" && !registered:
		return Decision{Unregistered: multipleNodes, Message: "Node " + o.Duplicate + " has the same providerID", After: left}
	}
	d := Decision{Refused: map[types.UID]string{}, After: left, RemovePlaceholder: o.Placeholder != nil, Plan: plan(o)}
	joined := conditions.Posted(o.Node) != nil
	d.RenewLease = !joined
	d.Register = joined && !registered
	if d.RenewLease {
		d.Unregistered = notFound
		d.After = min(d.After, leaseEvery)
	}
	d.bindings(o, ready)
	d.taint(o, ready)
	d.initialize(o, ready, registered)
	return d
}

// deadline by which the node must be Ready, counted from its launch. One that was Ready before, which its missing startup taint
// tells, has as long again from the moment that it no longer is: pods run there.
func deadline(o Observed) time.Time {
	if o.Node != nil && registeredNode(o.Node) && !hasTaint(o.Node, catalog.StartingTaintKey) {
		return joinedAt(o.Node).Add(patience(o))
	}
	return record.Deadline(o.Claim, patience(o))
}

// patience is how long the node may take.
func patience(o Observed) time.Duration {
	if len(o.Slots) > 0 {
		return o.Settings.JoinDeadline
	}
	return o.Settings.EmptyDeadline
}

// bindings chooses the pods whose moment has come.
func (d *Decision) bindings(o Observed, ready bool) {
	onNode := o.OnNode
	for _, s := range o.Slots {
		if s.Pod == nil || s.Pod.Spec.NodeName != "" || !s.Pod.DeletionTimestamp.IsZero() || o.Answered[s.Pod.UID] {
			continue
		}
		verdict := bind.At(facts(o, s))
		moment, reason := verdict.Moment, verdict.Reason
		if due := moment == bind.Launch || moment == bind.Ready && ready; !due {
			continue
		}
		if refusal := bind.Check(s.Pod, o.Node, onNode); refusal != "" {
			if ready {
				d.Refused[s.Pod.UID] = refusal // Before that the Node may still become one that fits.
			}
			continue
		}
		if moment == bind.Launch && ready {
			moment, reason = bind.Ready, "the node is ready already"
		}
		d.Bind = append(d.Bind, bind.Binding{Pod: s.Pod, Node: o.Node.Name, Moment: moment, Reason: reason})
		onNode = append(onNode, s.Pod)
	}
}

func facts(o Observed, s Slot) bind.Facts {
	taints := record.Taints(o.Claim)
	if conditions.Posted(o.Node) != nil {
		taints = o.Node.Spec.Taints
	}
	return bind.Facts{
		Pod: s.Pod, SchedulerOnly: s.Ref.SchedulerOnly, Taints: taints, UnboundVolume: s.UnboundVolume,
		NetworkAtStart: o.NetworkAtStart, SwitchedOff: o.SwitchedOff, Setting: o.Settings.BindAt,
	}
}

// Known is since when adopted pods are nominated to the node or bound to it, after what was known before.
func Known(before map[types.UID]time.Time, node string, slots []Slot, now time.Time) map[types.UID]time.Time {
	after := map[types.UID]time.Time{}
	for _, s := range slots {
		if !s.Ref.Adopted || s.Pod == nil || s.Pod.Status.NominatedNodeName != node && s.Pod.Spec.NodeName != node {
			continue
		}
		after[s.Pod.UID] = now
		if since, ok := before[s.Pod.UID]; ok {
			after[s.Pod.UID] = since
		}
	}
	return after
}

// unknownFor is how long the scheduler of an adopted pod must be waited for until it knows that the pod goes to the node.
func unknownFor(o Observed) time.Duration {
	longest := time.Duration(0)
	for _, s := range o.Slots {
		if !s.Ref.Adopted || s.Pod == nil || !s.Pod.DeletionTimestamp.IsZero() || s.Pod.Spec.NodeName != "" && s.Pod.Spec.NodeName != o.Node.Name {
			continue
		}
		left := knownFor
		if since, ok := o.Known[s.Pod.UID]; ok {
			left -= o.Now.Sub(since)
		}
		longest = max(longest, left)
	}
	return longest
}

// taint decides whether the startup taint goes: with Ready once every binding due was answered, or two seconds later, and the
// schedulers of adopted pods have seen where these go; or where it keeps a DaemonSet off that the node may be waiting for.
func (d *Decision) taint(o Observed, ready bool) {
	if !hasTaint(o.Node, catalog.StartingTaintKey) {
		return
	}
	unknown := unknownFor(o)
	if unknown > 0 {
		d.After = min(d.After, unknown)
	}
	switch {
	case ready:
		waited := o.Now.Sub(o.ReadySince)
		left := min(unknown, knownWithin-waited)
		if len(d.Bind) > 0 {
			left = max(left, untaintAfter-waited)
		}
		d.Untaint = left <= 0
		if !d.Untaint {
			d.After = min(d.After, left)
		}
	case o.DaemonKeptOff != "":
		waited := o.Now.Sub(joinedAt(o.Node))
		d.Untaint = waited >= daemonPatience
		if !d.Untaint {
			d.After = min(d.After, daemonPatience-waited)
		}
	}
}

// initialize compares the node with what Karpenter calls initialized.
func (d *Decision) initialize(o Observed, ready, registered bool) {
	switch {
	case !ready:
		d.Waiting, d.Message = "NodeNotReady", "Node status is NotReady"
		if c := conditions.Ready(o.Node); c != nil && c.Message != "" {
			d.Message += ": " + c.Message
		}
	case !registered:
		// It is being registered: the next look follows at once.
	case startup(o) != "":
		d.Waiting, d.Message = "StartupTaintsExist", fmt.Sprintf("StartupTaint %q still exists", startup(o))
	case ephemeral(o.Node) != "":
		d.Waiting, d.Message = "KnownEphemeralTaintsExist", fmt.Sprintf("KnownEphemeralTaint %q still exists", ephemeral(o.Node))
	case missing(o) != "":
		d.Waiting, d.Message = "ResourceNotRegistered", fmt.Sprintf("Resource %q was requested but not registered", missing(o))
	default:
		d.Initialize = true
		d.After = 0
	}
}

// startup names a startup taint of the claim that is still on the node.
func startup(o Observed) string {
	for _, have := range o.Node.Spec.Taints {
		for _, t := range o.Claim.Spec.StartupTaints {
			if t.MatchTaint(&have) {
				return have.ToString()
			}
		}
	}
	return ""
}

// ephemeral names a taint that goes by itself and is still on the node.
func ephemeral(node *corev1.Node) string {
	for _, have := range node.Spec.Taints {
		switch have.Key {
		case catalog.StartingTaintKey, karpv1.UnregisteredTaintKey,
			corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, "node.cloudprovider.kubernetes.io/uninitialized":
			return have.ToString()
		}
	}
	return ""
}

// missing names an extended resource that the claim was sized for and that the node does not show yet.
func missing(o Observed) string {
	for name, want := range o.Claim.Spec.Resources.Requests {
		planned, offered := o.Claim.Status.Allocatable[name]
		have := o.Node.Status.Allocatable[name]
		if offered && !want.IsZero() && !planned.IsZero() && have.IsZero() {
			return string(name)
		}
	}
	return ""
}
