package record

import (
	"github.com/awslabs/operatorpkg/status"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Condition returns a condition of the claim, nil where it has none. It only reads, as claims in a cache need it: Karpenter's
// StatusConditions writes what is missing.
func Condition(claim *karpv1.NodeClaim, condition string) *status.Condition {
	return find(claim.Status.Conditions, condition)
}

// Is says that a condition of the claim is True. It only reads.
func Is(claim *karpv1.NodeClaim, condition string) bool {
	return Condition(claim, condition).IsTrue()
}

// PoolReady says that the NodePool is Ready. It only reads.
func PoolReady(pool *karpv1.NodePool) bool {
	return find(pool.Status.Conditions, status.ConditionReady).IsTrue()
}

func find(list []status.Condition, condition string) *status.Condition {
	for i := range list {
		if list[i].Type == condition {
			return &list[i]
		}
	}
	return nil
}
