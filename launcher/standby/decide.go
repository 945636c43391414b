package standby

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/record"
)

const (
	// unneededFor is how long no room of its buffer is planned on an instance before it terminates: the room may be planned there again.
	unneededFor = 30 * time.Second
	// stopWithin is how long a pod that was promised an instance in the moment in which it was stopped waits for the end of that.
	stopWithin = 30 * time.Second
	// startWithin is how long a start is repeated that EC2 does not answer, or refuses for a reason that passes.
	startWithin = 20 * time.Second
	// pollStop is when EC2 is asked again whether an instance is stopped, and pollAsleep whether it still is.
	pollStop, pollAsleep = 3 * time.Second, 2 * time.Minute
	// pollNeed is when it is looked again whether the buffer needs the instance.
	pollNeed = 10 * time.Second
	// shownWithin is how long after a new promise the cache may not show its pod yet, and pollShown when it is looked again whether it does.
	shownWithin, pollShown = 30 * time.Second, 500 * time.Millisecond
	// stopAgain is when a stop is tried again that EC2 refused, hibernateAgain when it may have refused it because the instance had just been launched.
	stopAgain, hibernateAgain = time.Minute, 10 * time.Second
	// hibernateWithin is the age of an instance up to which that may be so: EC2 hibernates none within some two minutes after its launch.
	hibernateWithin = 5 * time.Minute
	// hibernatedFor is how long an instance stays hibernated: EC2 does not support more than 60 days.
	hibernatedFor = 59 * 24 * time.Hour
	// startAgain is when a start is repeated.
	startAgain = 500 * time.Millisecond
)

// The reasons of NodeClaims that terminate.
const (
	// Unneeded means that the buffer has its room elsewhere, or is gone.
	Unneeded = "standby_unneeded"
	// NotStarted means that EC2 did not start the instance: its pods have another node launched.
	NotStarted = "standby_not_started"
	// HibernatedLong means that the instance was hibernated for as long as EC2 supports: its buffer has another one launched.
	HibernatedLong = "standby_hibernated_long"
)

// The reasons of the condition Standby of an instance that is stopped, by how it was.
const asleep, hibernated = "Asleep", "Hibernated"

// Action is what is to be done about an instance.
type Action string

// The actions.
const (
	// Wait for an event, or until Decision.After.
	Wait Action = ""
	// Keep means that the node is promised to a pod before it was stopped, or has one: it joins like any other.
	Keep Action = "keep"
	// Stop the instance.
	Stop Action = "stop"
	// Sleep means that the instance is stopped: its Node is deleted.
	Sleep Action = "sleep"
	// Start the instance.
	Start Action = "start"
	// Replace means that the buffer has another instance launched. This one terminates as unneeded once that one sleeps.
	Replace Action = "replace"
	// End the NodeClaim.
	End Action = "end"
)

// Observed holds all inputs of a decision about one NodeClaim, which has an instance and waits for a standby buffer.
type Observed struct {
	// Now is the time of the observation.
	Now time.Time
	// Claim is the NodeClaim.
	Claim *karpv1.NodeClaim
	// Promised means that the node is promised to a pod that exists.
	Promised bool
	// Unshown means that the node has a new promise to a pod that the cache does not show: it may not show it yet.
	Unshown bool
	// UnneededSince is since when no room of the buffer is planned on it; zero if some is.
	UnneededSince time.Time
	// ReadySince is since when its Node is Ready; zero if it is not.
	ReadySince time.Time
	// Missing are images of the buffer that are not on its disk yet.
	Missing []string
	// Starting is the number of pods on the node that have not started: those of DaemonSets, whose images are pulled as well.
	Starting int
	// Known means that the buffer is known, and so its images.
	Known bool
	// Within is how long at most a node that is ready waits for its images.
	Within time.Duration
	// Occupant is a pod on the node that no controller puts on each node: it tolerates the cordon, was created for the node, or came while it was uncordoned. Nil if
	// there is none.
	Occupant *corev1.Pod
	// StopAfter is when a stop is tried again that EC2 refused; zero if it did not.
	StopAfter time.Time
	// Instance is the state that EC2 returned; empty if EC2 was not asked, or did not return the instance.
	Instance cloud.InstanceState
	// ExpiresSoon means that the NodeClaim is in the window before its expiry. It is read of an instance that is stopped, or that EC2 does not stop.
	ExpiresSoon bool
	// Hibernated means that its last stop was a hibernation, as EC2 returned it.
	Hibernated bool
}

// Decision is what to do now, and when to look again without an event.
type Decision struct {
	// Do is the action.
	Do Action
	// Reason and Message of an end.
	Reason, Message string
	// After is when to look again; zero means at the next event.
	After time.Duration
}

// asks reports whether EC2 has to be asked for the state of the instance, after it was checked last.
func asks(o Observed, checked time.Time) bool {
	s := record.StandbyOf(o.Claim).State
	return s == record.StandbyStopping || s == record.StandbyAsleep && !o.Promised && o.Now.Sub(checked) >= pollAsleep
}

// Decide returns what to do for one claim.
func Decide(o Observed) Decision {
	s := record.StandbyOf(o.Claim)
	if !s.Waits() {
		return Decision{}
	}
	if unneeded := !o.UnneededSince.IsZero(); unneeded && !o.Promised && !o.Unshown && s.State != record.StandbyStarting && o.Now.Sub(o.UnneededSince) >= unneededFor {
		return Decision{Do: End, Reason: Unneeded, Message: "its buffer has no room planned on it"}
	}
	switch s.State {
	case record.StandbyStopping:
		return stopping(o, s)
	case record.StandbyAsleep:
		return sleeping(o, s)
	case record.StandbyStarting:
		return Decision{Do: Start}
	case record.StandbyPreparing, record.StandbyAwake:
	}
	return preparing(o)
}

// sleeping decides about an instance that is stopped.
func sleeping(o Observed, s record.Standby) Decision {
	switch {
	case o.Promised:
		return Decision{Do: Start}
	case o.Unshown:
		return Decision{After: pollShown}
	case o.Instance == cloud.StateRunning || o.Instance == cloud.StatePending:
		return Decision{Do: Stop} // Another started it.
	case isHibernated(o.Claim) && o.Now.Sub(s.Since) >= hibernatedFor:
		return Decision{Do: End, Reason: HibernatedLong, Message: "its instance has been hibernated for " + catalog.CountText(int(hibernatedFor/(24*time.Hour)), "day")}
	case o.ExpiresSoon && !record.Outdated(o.Claim):
		return Decision{Do: Replace}
	}
	return Decision{After: pollNeed}
}

// preparing decides about an instance that was launched and has not been stopped yet.
func preparing(o Observed) Decision {
	initialized := conditions.Claim(o.Claim, karpv1.ConditionTypeInitialized)
	switch {
	case o.Promised:
		return Decision{Do: Keep}
	case o.Unshown:
		return Decision{After: pollShown}
	case initialized == nil || initialized.Reason != record.ConditionStandby || o.ReadySince.IsZero() || !o.Known:
		return Decision{After: pollNeed} // Package join says so when only the stop is left.
	case !o.StopAfter.IsZero() && o.ExpiresSoon && !record.Outdated(o.Claim):
		return Decision{Do: Replace} // EC2 does not stop it: it runs until another one takes its place.
	case o.Now.Before(o.StopAfter):
		return Decision{After: pollNeed}
	}
	if left := o.Within - o.Now.Sub(o.ReadySince); left > 0 && len(o.Missing)+o.Starting > 0 {
		return Decision{After: min(left, pollNeed), Message: waitsFor(o)}
	}
	if pod := o.Occupant; pod != nil {
		return Decision{Do: Keep, Message: fmt.Sprintf("pod %s/%s is on its node", pod.Namespace, pod.Name)}
	}
	return Decision{Do: Stop, Message: waitsFor(o)}
}

// waitsFor returns what is not on the node's disk yet.
func waitsFor(o Observed) string {
	switch {
	case len(o.Missing) > 0:
		return "images that are not pulled yet: " + strings.Join(o.Missing, ", ")
	case o.Starting > 0:
		return catalog.CountText(o.Starting, "pod") + " of DaemonSets not started yet"
	}
	return ""
}

// stopping decides about an instance that is being stopped.
func stopping(o Observed, s record.Standby) Decision {
	switch {
	case o.Instance == cloud.StateStopped:
		return Decision{Do: Sleep}
	case o.Promised && o.Now.Sub(s.Since) >= stopWithin:
		return Decision{Do: End, Reason: NotStarted, Message: fmt.Sprintf("its instance is still being stopped after %s", stopWithin)}
	case o.Instance == cloud.StateRunning || o.Instance == cloud.StatePending:
		return Decision{Do: Stop} // A crash came before EC2 was called, or EC2 shows the stop later.
	}
	return Decision{After: pollStop}
}

// isHibernated reports whether the instance of a claim was hibernated when it was stopped.
func isHibernated(claim *karpv1.NodeClaim) bool {
	c := conditions.Claim(claim, record.ConditionStandby)
	return c.IsTrue() && c.Reason == hibernated
}

// occupant returns the first pod that a stop of the instance would end, and that is there once. Pods that a controller puts on each node come back with it.
func occupant(pods []*corev1.Pod) *corev1.Pod {
	return disruption.Occupant(slices.DeleteFunc(slices.Clone(pods), perNode))
}

// perNode reports whether a controller puts a pod on each node, as DaemonSets of others do: it is of such a kind, such as OpenKruise's DaemonSet and Datadog's
// ExtendedDaemonSetReplicaSet, or selects its node by name as Kubernetes' own does.
func perNode(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return false
	}
	_, byName := disruption.NodeByName(pod)
	return byName || strings.Contains(owner.Kind, "DaemonSet")
}
