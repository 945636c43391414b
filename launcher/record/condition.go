package record

import karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

// Is says that a condition of the claim is True. It only reads, as claims in a cache need it: Karpenter's StatusConditions writes
// what is missing.
func Is(claim *karpv1.NodeClaim, condition string) bool {
	for i := range claim.Status.Conditions {
		if c := &claim.Status.Conditions[i]; c.Type == condition {
			return c.IsTrue()
		}
	}
	return false
}
