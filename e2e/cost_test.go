package e2e_test

import (
	"math"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/nodepool"
	"github.com/slipway-k8s/slipway/launcher/view"
)

// A node costs its instance, the class's volume and what its NodePool declares. Declarations that cannot be read are reported on the NodePool, and
// nodes are launched without them.
func TestNodeCost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "node-cost")
	w.pool(w.name, func(p *karpv1.NodePool) {
		onlyTypes(p, "m6i.large")
		p.Annotations = map[string]string{catalog.NodeCostAnnotation: "0.25"}
	})
	w.deployment("web", 1, w.podSpec("1", "1Gi", nil))
	w.awaitRunning(1)
	claim := w.claimsOf(w.name)[0].Object
	cost, ok := catalog.ParseCost(claim.Annotations[catalog.CostAnnotation])
	if !ok || cost.Instance <= 0 || cost.Declared != 0.25 || math.Abs(cost.Volumes-20*0.08/730) > 1e-6 {
		t.Errorf("the NodeClaim's cost is %+v (%q)", cost, claim.Annotations[catalog.CostAnnotation])
	}
	if price := view.ParseExpected(claim.Annotations[catalog.ExpectedAnnotation]).Price; math.Abs(price-cost.Total()) > 1e-4 {
		t.Errorf("the NodeClaim costs %v, its parts %v", price, cost.Total())
	}
	w.change(func(p *karpv1.NodePool) {
		p.Annotations[catalog.NodeCostAnnotation], p.Annotations[catalog.BurstUseAnnotation] = "much", "most"
	})
	pool := &karpv1.NodePool{}
	w.await(t, "the NodePool to report its unreadable cost", func() bool {
		if err := w.client.Get(t.Context(), client.ObjectKey{Name: w.name}, pool); err != nil {
			return false
		}
		c := pool.StatusConditions().Get(nodepool.ConditionNodeCost)
		return c.IsFalse() && strings.Contains(c.Message, `"much"`) && strings.Contains(c.Message, `"most"`)
	})
	w.deployment("more", 1, w.podSpec("1500m", "1Gi", nil))
	w.awaitRunning(2)
}
