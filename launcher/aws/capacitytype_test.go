package aws

import (
	"testing"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Each capacity type of the catalog has its EC2 side, in the same order, and the last one takes every instance.
func TestCapacityTypesAreTheCatalogs(t *testing.T) {
	known, ours := catalog.CapacityTypes(), capacityTypes()
	if len(known) != len(ours) {
		t.Fatalf("%d capacity types in the catalog, %d with an EC2 side", len(known), len(ours))
	}
	for i, k := range known {
		if o := ours[i]; o.name != k.Name || o.offers == nil || o.target == nil || o.runs == nil {
			t.Errorf("capacity type %d is %s in the catalog, %+v here", i, k.Name, o)
		}
		if got := catalog.CapacityTypeOf(k.Name); got != k {
			t.Errorf("capacity type %s is looked up as %+v", k.Name, got)
		}
		if k.EndsAs != "" && capacityTypeOf(k.EndsAs).name != k.EndsAs {
			t.Errorf("capacity type %s ends as %s, which is none", k.Name, k.EndsAs)
		}
	}
	if _, ok := ours[len(ours)-1].runs(ec2types.Instance{}); !ok {
		t.Errorf("an instance without marks is not %s", ours[len(ours)-1].name)
	}
	if got := catalog.CapacityTypeOf("of-tomorrow"); got != (catalog.CapacityType{Name: "of-tomorrow"}) {
		t.Errorf("an unknown capacity type has traits: %+v", got)
	}
}
