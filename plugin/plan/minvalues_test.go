package plan_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// Of a claim's minValues on zone IDs those of its zones count.
func TestShortOfZoneIDs(t *testing.T) {
	it := catalog.InstanceType{Name: "m7g.large", Offerings: []catalog.Offering{
		{Zone: "us-east-1a", ZoneID: "use1-az1", CapacityType: "spot", Available: true},
		{Zone: "us-east-1b", ZoneID: "use1-az2", CapacityType: "spot", Available: true},
		{Zone: "us-east-1c", ZoneID: "use1-az3", CapacityType: "spot", Available: true},
	}}
	for _, c := range []struct {
		min   int32
		short bool
	}{{2, false}, {3, true}} {
		claim := plan.Claim{Alternatives: []string{it.Name}, Requirements: []catalog.Requirement{
			{Key: "topology.k8s.aws/zone-id", Operator: corev1.NodeSelectorOpExists, MinValues: c.min},
			{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"us-east-1a", "us-east-1b"}},
		}}
		if r, have, short := claim.ShortOfValues([]catalog.InstanceType{it}); short != c.short || short && have != 2 {
			t.Errorf("at least %d: short %t of %s, which has %d", c.min, short, r.Key, have)
		}
	}
}
