package record

import (
	"strings"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// StandbyState is where the instance of a standby buffer is in its life.
type StandbyState string

// The states in their order. An instance that is promised to a pod before it stops goes from StandbyPreparing to StandbyAwake.
const (
	// StandbyPreparing is from the launch until the node has what it needs on its disk.
	StandbyPreparing StandbyState = ""
	// StandbyStopping is until the instance is stopped and its Node deleted.
	StandbyStopping StandbyState = "stopping"
	// StandbyAsleep is while the instance is stopped and no pod is promised to it.
	StandbyAsleep StandbyState = "asleep"
	// StandbyStarting is from the first promise until EC2 has accepted the start.
	StandbyStarting StandbyState = "starting"
	// StandbyAwake is from then on: the node joins like any other.
	StandbyAwake StandbyState = "awake"
)

// ConditionStandby is the condition of a NodeClaim whose instance is stopped, or about to be.
const ConditionStandby = "Standby"

// ReasonWoken is the reason of the condition Standby, which is False then, of a NodeClaim whose instance was started again.
const ReasonWoken = "Woken"

// Standby is what a NodeClaim records of a standby buffer. The zero value is a NodeClaim that was not launched for one.
type Standby struct {
	// Buffer is the UID of the CapacityBuffer.
	Buffer string
	// State of the instance.
	State StandbyState
	// Since is when it came into the state; zero while the instance is prepared.
	Since time.Time
	// Kept is why the instance was never stopped, where that is a pod that was not promised its node; empty otherwise.
	Kept string
}

// StandbyOf reads what a NodeClaim records. A state that slipway does not have counts as StandbyAwake: the node joins, or is ended.
func StandbyOf(claim *karpv1.NodeClaim) Standby {
	out := Standby{Buffer: claim.Annotations[catalog.StandbyAnnotation], Kept: claim.Annotations[catalog.StandbyKeptAnnotation]}
	text, has := claim.Annotations[catalog.StandbyStateAnnotation]
	if out.Buffer == "" || !has {
		return out
	}
	state, at, _ := strings.Cut(text, "/")
	switch out.State = StandbyState(state); out.State {
	case StandbyStopping, StandbyAsleep, StandbyStarting, StandbyAwake:
	default:
		out.State = StandbyAwake
	}
	out.Since, _ = time.Parse(time.RFC3339, at)
	return out
}

// FormatStandby returns the value of catalog.StandbyStateAnnotation.
func FormatStandby(state StandbyState, since time.Time) string {
	return string(state) + "/" + since.UTC().Format(time.RFC3339)
}

// Waits reports whether the node is kept for the first pod that is promised to it: no other pod is placed there.
func (s Standby) Waits() bool { return s.Buffer != "" && s.State != StandbyAwake }

// Outdated reports whether the instance of a claim waits and is to be replaced, since it has drifted or expires soon: the room of its buffer is planned
// elsewhere.
func Outdated(claim *karpv1.NodeClaim) bool {
	return StandbyOf(claim).Waits() && (conditions.ClaimIs(claim, karpv1.ConditionTypeDrifted) || claim.Annotations[catalog.StandbyExpiresAnnotation] != "")
}

// Off reports whether the instance is stopped, is stopping, or is to be started: it has no Node that joins.
func (s Standby) Off() bool { return s.Waits() && s.State != StandbyPreparing }

// Woken reports whether the instance of a claim was stopped, and started again for a pod.
func Woken(claim *karpv1.NodeClaim) bool {
	c := conditions.Claim(claim, ConditionStandby)
	return StandbyOf(claim).State == StandbyAwake && c != nil && (c.IsTrue() || c.Reason == ReasonWoken)
}

// StartedAt returns when EC2 accepted the launch of a claim's instance, or its last start after it was stopped; zero for neither.
func StartedAt(claim *karpv1.NodeClaim) time.Time {
	var out time.Time
	if c := conditions.Claim(claim, karpv1.ConditionTypeLaunched); c.IsTrue() {
		out = c.LastTransitionTime.Time
	}
	if s := StandbyOf(claim); s.State == StandbyAwake && s.Since.After(out) {
		out = s.Since
	}
	return out
}
