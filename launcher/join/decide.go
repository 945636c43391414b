package join

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/bind"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// Observed holds all inputs of a decision about one NodeClaim.
type Observed struct {
	// Now is the time of the observation.
	Now time.Time
	// Claim is the NodeClaim; it has an instance.
	Claim *karpv1.NodeClaim
	// Node is the instance's; nil if there is none.
	Node *corev1.Node
	// Slots are the pods promised to the claim.
	Slots []Slot
	// OnNode are the pods bound to the node.
	OnNode []*corev1.Pod
	// Around is what topology constraints of the pods that are due depend on.
	Around bind.Around
	// LedSince is when this process noticed that it leads.
	LedSince time.Time
	// ReadySince is when the node was first observed Ready; zero if it was not.
	ReadySince time.Time
	// Answered are the pods whose binding at Ready was answered, or refused by Check.
	Answered map[types.UID]bool
	// Known maps each adopted pod that is nominated or bound to the node to since when it is.
	Known map[types.UID]time.Time
	// Placeholder is the Node that the launcher created, if the kubelet has joined under another name; nil otherwise.
	Placeholder *corev1.Node
	// Duplicate names another Node with the same providerID whose kubelet has joined; empty if there is none.
	Duplicate string
	// Instance is the state that EC2 returned; empty if EC2 was not asked, or did not return the instance.
	Instance cloud.InstanceState
	// StateReason is EC2's reason of that state; zero if there is none.
	StateReason cloud.StateReason
	// LeaseRenewed is when this process renewed the node's Lease last; zero if it did not.
	LeaseRenewed time.Time
	// NetworkAtStart means that the NodePool's nodes have their network ready when their kubelet starts.
	NetworkAtStart bool
	// SwitchedOff is why the launcher binds no pods in the NodePool; empty if it does.
	SwitchedOff string
	// NoDeletionCosts means that the NodePool wants none for its pods.
	NoDeletionCosts bool
	// DaemonKeptOff names a DaemonSet that fits the node and that only the launcher's taint blocks; empty if there is none.
	DaemonKeptOff string
	// Slices are the ResourceSlices of the node; read only if the claim names DRA drivers to wait for.
	Slices []*resourcev1.ResourceSlice
	// Settings of the launcher.
	Settings Settings
}

// Slot is one promised pod.
type Slot struct {
	// Ref is the promise.
	Ref catalog.PodRef
	// Pod is the pod in the API server; nil if it is deleted.
	Pod *corev1.Pod
	// UnboundVolume names a volume claim of the pod that is not bound; empty if there is none.
	UnboundVolume string
	// Volumes are those to which volume claims of the pod are bound.
	Volumes []*corev1.PersistentVolume
	// ClaimTaken is that another pod on a node uses a ReadWriteOncePod claim of the pod; empty if none does.
	ClaimTaken string
}

// Settings are the user's settings of joining.
type Settings struct {
	// BindAt is when promised pods are bound.
	BindAt bind.Setting
	// Patience is how long nodes may take to become Ready.
	Patience record.Patience
	// IgnoreDRARequests means that a node is initialized whether or not its DRA drivers have published its devices.
	IgnoreDRARequests bool
}

// The times of joining.
const (
	// leaseEvery is how often the launcher renews a booting node's Lease: half of the 40 s after which kube-controller-manager may call the node
	// unreachable (--node-monitor-grace-period, 50 s since 1.32). The kubelet renews twice as often.
	leaseEvery = 20 * time.Second
	// untaintAfter is when the startup taint is removed even without all answers to bindings.
	untaintAfter = 2 * time.Second
	// awaitedWithin is when the startup taint is removed even while pods await that another controller removes its taint.
	awaitedWithin = time.Minute
	// knownFor is how long an adopted pod's own scheduler must have been able to see the pod's node before it may use the node: its caches
	// lag behind the API server by less.
	knownFor = time.Second
	// knownWithin is when the startup taint is removed even if that time has not passed: two schedulers may then use the same capacity.
	knownWithin = 5 * time.Second
	// daemonPatience is how long a registered node may stay unready while the launcher's taint blocks a DaemonSet that it may be waiting
	// for.
	daemonPatience = 20 * time.Second
)

// Decision is what to do now, in the order of the fields, and when to look again without an event.
type Decision struct {
	// End is the reason to end the claim, EndMessage its text for people; if it is set, all other fields are empty.
	End, EndMessage string
	// CreateNode means that the Node is missing.
	CreateNode bool
	// RemovePlaceholder means that the Node of the wrong name is deleted, with the pods that were bound to it.
	RemovePlaceholder bool
	// Bind are the pods to bind now.
	Bind []bind.Binding
	// Refused are pods that the actual Node would not run, with the reason: they are left to the scheduler.
	Refused map[types.UID]string
	// RenewLease means that the kubelet has not posted a status yet, and that the last renewal is some time ago.
	RenewLease bool
	// Register means that the kubelet has joined and that the claim does not show it yet.
	Register bool
	// Untaint means that the startup taint is removed.
	Untaint bool
	// Uncordon means that the node was kept for a standby buffer and is so no longer.
	Uncordon bool
	// Initialize means that the node is initialized.
	Initialize bool
	// Unregistered is why the kubelet has not joined, as Karpenter's reason of the condition Registered; empty if it has.
	Unregistered string
	// Waiting is why the node is not initialized, as Karpenter's condition reason and a message.
	Waiting, Message string
	// Plan is when each promised pod is bound, for display.
	Plan []record.Bindings
	// After is when to look again; zero means at the next event.
	After time.Duration
}

// Decide returns what to do for one claim.
func Decide(o Observed) Decision {
	have := o.Claim.StatusConditions()
	registered := have.Get(karpv1.ConditionTypeRegistered).IsTrue()
	if have.Get(karpv1.ConditionTypeInitialized).IsTrue() {
		return Decision{}
	}
	ready := o.Node != nil && conditions.NodeReady(o.Node)
	left := max(deadline(o).Sub(o.Now), 0)
	if reason, message := failure(o, left); reason != "" {
		return Decision{End: reason, EndMessage: message}
	}
	switch {
	case o.Node == nil && registered:
		return Decision{After: left} // A user deleted it: the end of its NodeClaim follows.
	case o.Node == nil:
		return Decision{CreateNode: true, Unregistered: record.NodeNotFound, After: left}
	case o.Duplicate != "" && !registered:
		return Decision{Unregistered: multipleNodes, Message: "Node " + o.Duplicate + " has the same providerID", After: left}
	}
	d := Decision{Refused: map[types.UID]string{}, After: left, RemovePlaceholder: o.Placeholder != nil, Plan: plan(o)}
	joined := conditions.Posted(o.Node) != nil
	d.Register = joined && !registered
	if !joined {
		d.Unregistered = record.NodeNotFound
		left := leaseEvery - o.Now.Sub(o.LeaseRenewed)
		if d.RenewLease = left <= 0; d.RenewLease {
			left = leaseEvery
		}
		d.again(left)
	}
	d.Uncordon = o.Node.Spec.Unschedulable && record.StandbyOf(o.Claim).State == record.StandbyAwake
	d.bindings(o, ready)
	d.taint(o, ready)
	d.initialize(o, ready, registered)
	return d
}

// again has the claim looked at after some time, unless it is earlier anyway. A node that became Ready has no look at its deadline once that has passed.
func (d *Decision) again(after time.Duration) {
	if d.After <= 0 || after < d.After {
		d.After = after
	}
}

// unbound reports whether a promised pod is still to be bound.
func unbound(o Observed, s Slot) bool {
	return s.Pod != nil && s.Pod.Spec.NodeName == "" && s.Pod.DeletionTimestamp.IsZero() && !o.Answered[s.Pod.UID]
}

// due returns when a promised pod is bound, and whether that is now.
func due(o Observed, s Slot, rules bind.Table, ready bool) (verdict bind.Verdict, now bool) {
	if !unbound(o, s) {
		return bind.Verdict{}, false
	}
	verdict = rules.At(facts(o, s))
	return verdict, verdict.Moment == bind.Launch || verdict.Moment == bind.Ready && ready
}

// bindings selects the pods that are due.
func (d *Decision) bindings(o Observed, ready bool) {
	onNode, around, rules := o.OnNode, o.Around, bind.Rules()
	for _, s := range o.Slots {
		verdict, now := due(o, s, rules, ready)
		if !now {
			continue
		}
		elsewhere, _ := bind.Elsewhere(s.Volumes, o.Node)
		if refusal := cmp.Or(bind.Check(s.Pod, o.Node, onNode), elsewhere, s.ClaimTaken, bind.Meanwhile(s.Pod, o.Node, around)); refusal != "" {
			if ready {
				d.Refused[s.Pod.UID] = refusal // Before that the Node may still change to one that fits.
			}
			around = around.Without(s.Pod) // Else one pod too many would hold back all promised pods of a domain.
			continue
		}
		moment, reason := verdict.Moment, verdict.Reason
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
	label := ""
	if conditions.NodeReady(o.Node) { // Until then a label is no news.
		_, label = bind.Elsewhere(s.Volumes, o.Node)
	}
	return bind.Facts{
		Pod: s.Pod, SchedulerOnly: s.Ref.SchedulerOnly, Taints: taints, UnboundVolume: s.UnboundVolume, VolumeLabel: label,
		NetworkAtStart: o.NetworkAtStart, SwitchedOff: o.SwitchedOff, Setting: o.Settings.BindAt,
	}
}

// Known returns since when adopted pods are nominated or bound to the node, given the earlier result.
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

// unknownFor returns how long to wait until the scheduler of an adopted pod has seen the pod's node.
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

// awaited reports whether a promised pod is bound only once another controller removes its taint, such as that of the cloud controller manager. Were
// the startup taint gone by then, both the launcher and the scheduler would bind the pod at that moment. A DaemonSet that the startup taint alone
// blocks may be what the controller waits for, such as the agent of a NodeReadinessRule.
func awaited(o Observed) bool {
	if o.DaemonKeptOff != "" || ephemeral(o.Node, true) == "" {
		return false
	}
	rules := bind.Rules()
	return slices.ContainsFunc(o.Slots, func(s Slot) bool {
		return unbound(o, s) && rules.At(facts(o, s)).Code == bind.CodeTaint
	})
}

// taint decides whether the startup taint is removed. It is removed at Ready, once every due binding was answered, or two seconds later, once
// pods await no other controller, and once the schedulers of adopted pods have seen the pods' node. It is also removed if it blocks a
// DaemonSet that the node may be waiting for.
func (d *Decision) taint(o Observed, ready bool) {
	if !hasTaint(o.Node, catalog.StartingTaintKey) {
		return
	}
	unknown := unknownFor(o)
	if unknown > 0 {
		d.again(unknown)
	}
	switch {
	case ready:
		waited := o.Now.Sub(o.ReadySince)
		left := min(unknown, knownWithin-waited)
		if len(d.Bind) > 0 {
			left = max(left, untaintAfter-waited)
		}
		if awaited(o) {
			left = max(left, awaitedWithin-waited)
		}
		d.Untaint = left <= 0
		if !d.Untaint {
			d.again(left)
		}
	case o.DaemonKeptOff != "":
		waited := o.Now.Sub(joinedAt(o.Node))
		d.Untaint = waited >= daemonPatience
		if !d.Untaint {
			d.again(daemonPatience - waited)
		}
	}
}

// initialize compares the node with Karpenter's definition of initialized.
func (d *Decision) initialize(o Observed, ready, registered bool) {
	switch {
	case !ready:
		d.Waiting, d.Message = record.NodeNotReady, record.NotReady
		if c := conditions.Ready(o.Node); c != nil && c.Message != "" {
			d.Message += ": " + c.Message
		}
	case !registered:
		// It is being registered: the next round follows at once.
	case startup(o) != "":
		d.Waiting, d.Message = "StartupTaintsExist", fmt.Sprintf("StartupTaint %q still exists", startup(o))
	case ephemeral(o.Node, d.Untaint) != "":
		d.Waiting, d.Message = "KnownEphemeralTaintsExist", fmt.Sprintf("KnownEphemeralTaint %q still exists", ephemeral(o.Node, d.Untaint))
	case missing(o) != "":
		d.Waiting, d.Message = "ResourceNotRegistered", fmt.Sprintf("Resource %q was requested but not registered", missing(o))
	case record.StandbyOf(o.Claim).Waits():
		d.Waiting, d.Message = record.ConditionStandby, "The node is ready to be stopped for a standby buffer"
	case lacksDriver(o) != "":
		d.Waiting, d.Message = "DRADriverPoolsNotPublished", fmt.Sprintf("DRA driver %q has not published a complete resource pool", lacksDriver(o))
	default:
		d.Initialize = true
		d.After = 0
	}
}

// startup returns a startup taint of the claim that is still on the node.
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

// ephemeral returns a temporary taint that is still on the node. The launcher's own does not count where it is removed now.
func ephemeral(node *corev1.Node, untainted bool) string {
	for _, have := range node.Spec.Taints {
		ours := have.Key == catalog.StartingTaintKey && !untainted
		if ours || have.Key == karpv1.UnregisteredTaintKey || catalog.EphemeralTaint(have.Key) {
			return have.ToString()
		}
	}
	return ""
}

// missing returns an extended resource that the claim was sized for and that the node does not have yet.
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

// lacksDriver returns a DRA driver that the claim was planned for and that has not published the node's devices.
func lacksDriver(o Observed) string {
	if o.Settings.IgnoreDRARequests {
		return ""
	}
	return unpublished(requestedDrivers(o.Claim), o.Slices)
}
