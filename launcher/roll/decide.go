package roll

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/expire"
)

// The reasons why a node is to be replaced, as metrics and conditions tell them.
const (
	// Drifted nodes are no longer what their NodePool and class ask for.
	Drifted = "drifted"
	// Expired nodes are in the soft window before their expireAfter is over.
	Expired = expire.Reason
)

// Due is why and since when a node is to be replaced; the zero Due says that it is not.
type Due struct {
	// Why is Drifted or Expired.
	Why string
	// Since is when its time came.
	Since time.Time
	// Message for a human.
	Message string
}

// DueOf says whether the node of a claim is to be replaced; window is how long its soft window before its expiry is.
func DueOf(claim *karpv1.NodeClaim, window time.Duration, now time.Time) Due {
	if claim.DeletionTimestamp != nil || !conditions.ClaimIs(claim, karpv1.ConditionTypeInitialized) {
		return Due{}
	}
	for i := range claim.Status.Conditions {
		if c := &claim.Status.Conditions[i]; c.Type == karpv1.ConditionTypeDrifted && c.IsTrue() {
			return Due{Why: Drifted, Since: c.LastTransitionTime.Time, Message: c.Reason + ": " + c.Message}
		}
	}
	soft := expire.Soft(claim, window)
	if soft.IsZero() || now.Before(soft) {
		return Due{}
	}
	end := expire.Decide(claim, now).At
	return Due{Why: Expired, Since: soft, Message: "expires at " + end.UTC().Format(time.RFC3339)}
}

// Candidate is a node that is to be replaced.
type Candidate struct {
	// Claim and Node are the node's.
	Claim *karpv1.NodeClaim
	Node  *corev1.Node
	// Due says why.
	Due Due
	// Empty says that no pod would have to move.
	Empty bool
	// Sick says that the node is not Ready: it counts in the budgets already.
	Sick bool
	// Protection is what keeps the node.
	Protection disruption.Block
}

// Blocked is what keeps the candidate from being replaced; empty for nothing. A drifted node with a termination grace period is not
// kept by its pods, as in Karpenter: the period is the end that its user has set to their protection. One that only expires soon is:
// the hard end comes.
func (c Candidate) Blocked() string {
	if c.Protection.ByPods && c.Due.Why == Drifted && c.Claim.Spec.TerminationGracePeriod != nil {
		return ""
	}
	return c.Protection.Why
}

// Order sorts candidates in the order in which they go: empty ones move nobody, sick ones serve nobody, and then the oldest.
func Order(list []Candidate) {
	rank := func(c Candidate) int {
		switch {
		case c.Empty:
			return 0
		case c.Sick:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(list, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), a.Due.Since.Compare(b.Due.Since), cmp.Compare(a.Claim.Name, b.Claim.Name))
	})
}
