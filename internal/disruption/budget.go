package disruption

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/robfig/cron/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// defaultNodes is the budget of a NodePool without the field, as in its CRD. The API server's default may be missing from objects
// in tests and files.
const defaultNodes = "10%"

// BudgetReasons returns the reasons that a budget can name, in a fixed order.
func BudgetReasons() []karpv1.DisruptionReason {
	return []karpv1.DisruptionReason{karpv1.DisruptionReasonEmpty, karpv1.DisruptionReasonUnderutilized, karpv1.DisruptionReasonDrifted}
}

// BudgetError names a field of a NodePool's budgets that is invalid.
type BudgetError struct {
	// Field such as spec.disruption.budgets[0].schedule.
	Field string
	// Err is what is wrong with it.
	Err error
}

// Error names the field and what is wrong with it.
func (e *BudgetError) Error() string { return e.Field + ": " + e.Err.Error() }

// Unwrap returns what is wrong.
func (e *BudgetError) Unwrap() error { return e.Err }

// Paused reports whether the annotation slipway.dev/disruption-paused of a NodePool keeps all its nodes from voluntary disruption.
func Paused(pool *karpv1.NodePool) bool { return pool.Annotations[catalog.PausedAnnotation] == "true" }

// AllowedDisruptions returns how many of a NodePool's nodes may be disrupted at the same time for a reason. It is the least
// of the active budgets, and none while disruption is paused. Percentages round up, and a budget without reasons applies to all of them. As in Karpenter, an
// empty list of budgets limits nothing, and a budget with an empty list of reasons applies to none. If a budget is invalid, none may be disrupted, for any
// reason. The error joins a *BudgetError for each invalid budget.
func AllowedDisruptions(pool *karpv1.NodePool, nodes int, reason karpv1.DisruptionReason, now time.Time) (int, error) {
	budgets := pool.Spec.Disruption.Budgets
	if budgets == nil {
		budgets = []karpv1.Budget{{Nodes: defaultNodes}}
	}
	allowed := math.MaxInt32
	var errs []error
	for i := range budgets {
		b := &budgets[i]
		most, field, err := most(b, nodes, now)
		if err != nil {
			errs = append(errs, &BudgetError{Field: fmt.Sprintf("spec.disruption.budgets[%d].%s", i, field), Err: err})
			continue
		}
		if appliesTo(b, reason) {
			allowed = min(allowed, most)
		}
	}
	if len(errs) > 0 || Paused(pool) {
		return 0, errors.Join(errs...)
	}
	return allowed, nil
}

// appliesTo reports whether a budget limits disruptions for the reason.
func appliesTo(b *karpv1.Budget, reason karpv1.DisruptionReason) bool {
	return b.Reasons == nil || slices.Contains(b.Reasons, reason)
}

// most returns how many of a number of nodes a budget allows now: any number while it is not active. field is the one that
// the error is about.
func most(b *karpv1.Budget, nodes int, now time.Time) (n int, field string, err error) {
	on, field, err := active(b, now)
	if err != nil {
		return 0, field, err
	}
	// Read also while the budget is not active, so that an invalid one is reported before its time comes.
	n, err = BudgetShare(b.Nodes, nodes)
	switch {
	case err != nil:
		return 0, "nodes", fmt.Errorf("%q is %w", b.Nodes, err)
	case !on:
		return math.MaxInt32, "", nil
	}
	return n, "", nil
}

// BudgetShare returns how many of a number of nodes the field nodes of a budget allows: a number, or a percentage that
// rounds up. The error continues a sentence after "is".
func BudgetShare(value string, nodes int) (int, error) {
	parsed := intstr.Parse(value)
	n, err := intstr.GetScaledValueFromIntOrPercent(&parsed, nodes, true)
	switch {
	case err != nil:
		return 0, fmt.Errorf("neither a number nor a percentage: %w", err)
	case n < 0:
		return 0, errors.New("negative")
	}
	return n, nil
}

// active reports whether now is within duration after a time of the schedule, cron in UTC. field is the one that the error
// is about.
func active(b *karpv1.Budget, now time.Time) (on bool, field string, err error) {
	switch {
	case b.Schedule == nil && b.Duration == nil:
		return true, "", nil
	case b.Schedule == nil:
		return false, "schedule", errors.New("schedule and duration must be set together")
	case b.Duration == nil:
		return false, "duration", errors.New("schedule and duration must be set together")
	}
	schedule, err := cron.ParseStandard("TZ=UTC " + *b.Schedule)
	if err != nil {
		return false, "schedule", fmt.Errorf("%q: %w", *b.Schedule, err)
	}
	hit := schedule.Next(now.UTC().Add(-b.Duration.Duration))
	return !hit.IsZero() && !hit.After(now.UTC()), "", nil
}

// BudgetNode is what the budgets of a NodePool count of a NodeClaim and its node.
type BudgetNode struct {
	// Claim is the NodeClaim's UID.
	Claim types.UID
	// Pool is the NodePool's name.
	Pool string
	// Counts is true where the node is initialized and its instance is not being terminated, nor would be if EC2 did not refuse
	// it. Other nodes count neither as nodes of the NodePool nor as disrupted.
	Counts bool
	// Deleting is true where the NodeClaim is being deleted.
	Deleting bool
	// DeletedAt is when the deletion of the NodeClaim was requested; zero where it is not being deleted.
	DeletedAt time.Time
	// Disrupted is true where the node may not serve its pods: it is not Ready, it or its NodeClaim is being deleted, or it
	// has the disruption taint.
	Disrupted bool
}

// TerminationFailed is the reason of the condition InstanceTerminating, Unknown, while EC2 refuses to terminate the instance of a node that has drained.
const TerminationFailed = "TerminationFailed"

// left reports whether pods have left the node for good: only EC2 has still to end its instance.
func left(claim *karpv1.NodeClaim) bool {
	c := conditions.Claim(claim, karpv1.ConditionTypeInstanceTerminating)
	return c.IsTrue() || c != nil && c.Reason == TerminationFailed
}

// BudgetNodeOf returns what the budgets count of a NodeClaim and its Node, which may be nil.
func BudgetNodeOf(claim *karpv1.NodeClaim, node *corev1.Node) BudgetNode {
	out := BudgetNode{
		Claim: claim.UID, Pool: claim.Labels[karpv1.NodePoolLabelKey], Deleting: claim.DeletionTimestamp != nil,
		Counts: conditions.ClaimIs(claim, karpv1.ConditionTypeInitialized) && !left(claim),
	}
	if out.Deleting {
		out.DeletedAt = claim.DeletionTimestamp.Time
	}
	out.Disrupted = out.Deleting || node == nil || node.DeletionTimestamp != nil || !conditions.NodeReady(node) || Tainted(node)
	return out
}

// PoolCount counts the nodes of a NodePool.
type PoolCount struct {
	// Nodes is the number to which percentages apply.
	Nodes int
	// Disrupted nodes are terminating, not Ready, or reserved by a decision that does not show in objects yet.
	Disrupted int
}

// CountNodes counts the nodes of each NodePool. Nodes of the claims in reserved count as disrupted, though their objects do
// not show it yet.
func CountNodes(nodes []BudgetNode, reserved map[types.UID]string) map[string]PoolCount {
	out := map[string]PoolCount{}
	for _, n := range nodes {
		if !n.Counts {
			continue
		}
		count := out[n.Pool]
		count.Nodes++
		if _, promised := reserved[n.Claim]; promised || n.Disrupted || n.Deleting {
			count.Disrupted++
		}
		out[n.Pool] = count
	}
	return out
}

// DisruptionsLeft returns how many more nodes of a NodePool may be disrupted for a reason. The error is AllowedDisruptions'.
func DisruptionsLeft(pool *karpv1.NodePool, t PoolCount, reason karpv1.DisruptionReason, now time.Time) (int, error) {
	allowed, err := AllowedDisruptions(pool, t.Nodes, reason, now)
	return max(allowed-t.Disrupted, 0), err
}
