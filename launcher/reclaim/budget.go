package reclaim

import (
	"time"

	"k8s.io/utils/clock"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Allowed is how many more nodes of a pool may be reclaimed at once, by the strictest of its budgets for empty nodes
// that are active now; percentages round up. nodes are the pool's initialized ones, disrupted those of them that leave
// or are not ready. A budget that cannot be read allows none and returns an error.
func Allowed(pool *karpv1.NodePool, nodes, disrupted int, now time.Time) (int, error) {
	if len(pool.Spec.Disruption.Budgets) == 0 {
		// The default of the CRD, for a pool that came without it.
		pool = pool.DeepCopy()
		pool.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "10%"}}
	}
	allowed, err := pool.GetAllowedDisruptionsByReason(at{now: now}, nodes, karpv1.DisruptionReasonEmpty)
	if err != nil {
		return 0, err
	}
	return max(allowed-disrupted, 0), nil
}

// at is a clock that stands still: Karpenter's budgets ask for the time by themselves.
type at struct {
	clock.RealClock
	now time.Time
}

// Now returns the moment the decision is made for.
func (a at) Now() time.Time { return a.now }
