package consistency

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
)

// enough is the share of an expected resource that a node must have, as in Karpenter.
const enough = 0.9

// Issues returns what the claim's node lacks. A claim that is being deleted or that is not initialized has no issues.
func Issues(claim *karpv1.NodeClaim, node *corev1.Node) []string {
	if !claim.DeletionTimestamp.IsZero() || !conditions.ClaimIs(claim, karpv1.ConditionTypeInitialized) {
		return nil
	}
	return Lacking(claim, node)
}

// Lacking returns, in Karpenter's words, the resources that the claim's pods were planned to request and of which its node has less than nine
// tenths of what was expected.
func Lacking(claim *karpv1.NodeClaim, node *corev1.Node) []string {
	var out []string
	for name, requested := range claim.Spec.Resources.Requests {
		have, expected := node.Status.Capacity[name], claim.Status.Capacity[name]
		if requested.IsZero() || expected.IsZero() {
			continue
		}
		if share := have.AsApproximateFloat64() / expected.AsApproximateFloat64(); share < enough {
			out = append(out, fmt.Sprintf("expected %s of resource %s, but found %s (%0.1f%% of expected)", expected.String(), name, have.String(), share*100))
		}
	}
	slices.SortFunc(out, strings.Compare)
	return out
}
