package launch

import (
	"testing"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// What commitments pay for keeps the price of the plan, whichever alternative EC2 chose; a spot instance has its own.
func TestCostOfCoveredNode(t *testing.T) {
	it := catalog.InstanceType{Name: "m5.large", Charges: catalog.Charges{Volumes: 0.25}, Offerings: []catalog.Offering{
		{Zone: "a", CapacityType: "on-demand", Price: 1.25}, {Zone: "a", CapacityType: "spot", Price: 0.75},
	}}
	claim := &karpv1.NodeClaim{}
	claim.Annotations = map[string]string{catalog.CostAnnotation: catalog.FormatCost(catalog.Cost{Instance: 0.01, Volumes: 0.5})}
	for _, tc := range []struct {
		capacityType, covered string
		instance              float64
	}{{"on-demand", "sp", 0.01}, {"on-demand", "", 1}, {"spot", "sp", 0.5}} {
		claim.Annotations[catalog.CoveredByAnnotation] = tc.covered
		got := costOf(it, cloud.Instance{InstanceType: "m5.large", Zone: "a", CapacityType: tc.capacityType}, claim)
		if got.Instance != tc.instance || got.Volumes != 0.25 {
			t.Errorf("%s, covered by %q: %+v, want %v for the instance", tc.capacityType, tc.covered, got, tc.instance)
		}
	}
}
