package e2e_test

import (
	"strings"
	"testing"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// A small pod gets the node that costs least with its volume and the CPU beyond its baseline, and explain says why it is not of the type with the lowest
// list price.
func TestExplainSaysWhyNotTheLowestListPrice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "list-price")
	w.pool("list-price", func(p *karpv1.NodePool) {
		p.Spec.Template.Spec.Requirements = nil
		require(p, karpv1.CapacityTypeLabelKey, "on-demand")
		onlyTypes(p, "t3a.nano", "t3a.small", "t3a.medium")
	})
	w.deployment("web", 1, w.podSpec("700m", "100Mi", nil))
	w.awaitRunning(1)
	claim := w.claimsOf("list-price")[0]
	printed := w.slipway("explain", "pod", w.pods()[0].Object.Namespace+"/"+w.pods()[0].Object.Name)
	for _, want := range []string{"NodeClaim " + claim.Object.Name, "  not chosen: t3a.nano, on-demand in us-east-1", " lists 0.0047 USD/h, the lowest price: "} {
		if !strings.Contains(printed, want) {
			t.Errorf("%q is not in what explain prints:\n%s", want, printed)
		}
	}
}
