package roll

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/expire"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// The reasons for which a node is replaced, in metrics and conditions.
const (
	// Drifted nodes differ from what their NodePool and EC2NodeClass ask for.
	Drifted = "drifted"
	// Expired nodes are in the soft window before the end of their expireAfter.
	Expired = expire.Reason
)

// Due is the reason why a node must be replaced, and since when. It is zero where the node need not be replaced.
type Due struct {
	// Why is Drifted or Expired.
	Why string
	// Since is when the reason began.
	Since time.Time
	// Message explains the reason to users.
	Message string
}

// DueOf returns why the node of a claim must be replaced. window is the length of the soft window before its expiry. A node that has joined and is not
// initialized for longer than a move would wait for it is due where it has drifted: else it would never go.
func DueOf(claim *karpv1.NodeClaim, window time.Duration, now time.Time) Due {
	initialized := conditions.ClaimIs(claim, karpv1.ConditionTypeInitialized)
	stalled := !initialized && conditions.ClaimIs(claim, karpv1.ConditionTypeRegistered) && age(claim, now) >= patience(claim)
	if claim.DeletionTimestamp != nil || !initialized && !stalled {
		return Due{}
	}
	for i := range claim.Status.Conditions {
		if c := &claim.Status.Conditions[i]; c.Type == karpv1.ConditionTypeDrifted && c.IsTrue() {
			return Due{Why: Drifted, Since: c.LastTransitionTime.Time, Message: c.Reason + ": " + c.Message}
		}
	}
	soft := expire.Soft(claim, window)
	if stalled || soft.IsZero() || now.Before(soft) {
		return Due{}
	}
	end := expire.Decide(claim, now).At
	return Due{Why: Expired, Since: soft, Message: "expires at " + end.UTC().Format(time.RFC3339)}
}

// slowest is how long a new node may take to become initialized, slowestToBoot where its machine boots slowly: a move that waits for it is called off a
// minute later.
const slowest, slowestToBoot = 9 * time.Minute, 19 * time.Minute

// patience returns how long the node of a claim may take to become initialized.
func patience(claim *karpv1.NodeClaim) time.Duration {
	if record.BootsSlowly(claim) {
		return slowestToBoot
	}
	return slowest
}

// age returns for how long a claim's instance has been on its way: since the claim was made, or since a pod woke an instance of a standby buffer.
func age(claim *karpv1.NodeClaim, now time.Time) time.Duration {
	begun := claim.CreationTimestamp.Time
	if started := record.StartedAt(claim); started.After(begun) {
		begun = started
	}
	return now.Sub(begun)
}

// Unproven returns why no node of a NodePool may be replaced yet: a node of the present template is not initialized for long, and none of the
// present template ever was. Each replacement would be such a node. It is empty where nothing is known against the template. claims are those
// of the NodePool.
func Unproven(pool *karpv1.NodePool, claims []*karpv1.NodeClaim, now time.Time) string {
	var stuck *karpv1.NodeClaim
	hash := ""
	for _, c := range claims {
		young := age(c, now) < patience(c)
		initialized := conditions.ClaimIs(c, karpv1.ConditionTypeInitialized)
		waits := record.StandbyOf(c).Waits() // It is no node until a pod wakes it.
		if young && !initialized || waits || c.DeletionTimestamp != nil || conditions.ClaimIs(c, karpv1.ConditionTypeDrifted) {
			continue
		}
		if hash == "" {
			hash = pool.Hash()
		}
		switch {
		case c.Annotations[karpv1.NodePoolHashAnnotationKey] != hash:
		case initialized:
			return ""
		case stuck == nil || c.Name < stuck.Name:
			stuck = c
		}
	}
	if stuck == nil {
		return ""
	}
	return fmt.Sprintf("NodeClaim %s of NodePool %s has not been initialized within %s, and no other node of the present template has", stuck.Name, pool.Name, patience(stuck))
}

// Candidate is a node that must be replaced.
type Candidate struct {
	// Claim and Node are its objects: the cache's, which must not be changed.
	Claim *karpv1.NodeClaim
	Node  *corev1.Node
	// Due is the reason.
	Due Due
	// Empty is true where no pod would have to move.
	Empty bool
	// Unready is true where the node is not Ready. The budgets count it as disrupted already.
	Unready bool
	// Protection is what blocks the node.
	Protection disruption.Block
	// Unproven is why no node of the NodePool may be replaced yet; empty where nothing is known against it.
	Unproven string
}

// Blocked returns what blocks the candidate; empty where nothing does. Pods do not block a drifted node with a termination
// grace period, as in Karpenter: its user has limited their protection. Pods do block a node that only expires soon, because
// the expiry itself will end their protection.
func (c Candidate) Blocked() string {
	unproven := c.Unproven
	if c.Empty {
		unproven = "" // It goes without a replacement.
	}
	if c.Protection.ByPods && c.Due.Why == Drifted && c.Claim.Spec.TerminationGracePeriod != nil {
		return unproven
	}
	return cmp.Or(c.Protection.Why, unproven)
}

// Order sorts candidates in the order of their replacement: empty nodes, whose replacement moves no pod, then nodes that are
// not Ready, then the others, each by the time since when they are due.
func Order(list []Candidate) {
	rank := func(c Candidate) int {
		switch {
		case c.Empty:
			return 0
		case c.Unready:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(list, func(a, b Candidate) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), a.Due.Since.Compare(b.Due.Since), cmp.Compare(a.Claim.Name, b.Claim.Name))
	})
}
