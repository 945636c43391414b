package reclaim

import (
	"fmt"
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

// maxLeaving is how many nodes may be leaving, for whatever reason, when another empty one is given back: the API server and EC2
// have other things to do.
const maxLeaving = 200

// Blocked says what keeps an empty node from being given back: that many nodes leave in the whole cluster, no budget of its pool
// allows it, or one that cannot be read does not, which its NodePool's condition ValidationSucceeded says too. Empty for nothing.
func Blocked(leaving, allowed int, unreadable error) string {
	switch {
	case unreadable != nil:
		return "a budget that cannot be read: " + unreadable.Error()
	case allowed <= 0:
		return "blocking budget"
	case leaving >= maxLeaving:
		return fmt.Sprintf("%d nodes that leave at this moment", leaving)
	}
	return ""
}

// at is a clock that stands still: Karpenter's budgets ask for the time by themselves.
type at struct {
	clock.RealClock
	now time.Time
}

// Now returns the moment the decision is made for.
func (a at) Now() time.Time { return a.now }
