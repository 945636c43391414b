package catalog_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
)

// What AWS bills on demand uses commitments, whichever controller launched it.
func TestBilledOnDemand(t *testing.T) {
	for _, tc := range []struct {
		what   string
		labels map[string]string
		want   bool
	}{
		{"on demand", map[string]string{"karpenter.sh/capacity-type": "on-demand"}, true},
		{"spot", map[string]string{"karpenter.sh/capacity-type": "spot"}, false},
		{"a capacity reservation", map[string]string{"karpenter.sh/capacity-type": "reserved"}, true},
		{"a capacity block", map[string]string{"karpenter.sh/capacity-type": "reserved", "karpenter.k8s.aws/capacity-reservation-type": "capacity-block"}, false},
		{"a managed node group", map[string]string{"eks.amazonaws.com/capacityType": "ON_DEMAND"}, true},
		{"a managed node group on spot", map[string]string{"eks.amazonaws.com/capacityType": "SPOT"}, false},
		{"no labels", map[string]string{}, false},
		{"dedicated", map[string]string{"karpenter.sh/capacity-type": "on-demand", "karpenter.k8s.aws/instance-tenancy": "dedicated"}, false},
		{"Windows", map[string]string{"karpenter.sh/capacity-type": "on-demand", "kubernetes.io/os": "windows"}, false},
	} {
		tc.labels["node.kubernetes.io/instance-type"], tc.labels["topology.kubernetes.io/zone"] = "m5.large", "a"
		got, ok := catalog.BilledOnDemand(tc.labels)
		if ok != tc.want || ok && got != (catalog.Billed{InstanceType: "m5.large", Zone: "a"}) {
			t.Errorf("%s: %+v, %v", tc.what, got, ok)
		}
	}
	if _, ok := catalog.BilledOnDemand(map[string]string{"karpenter.sh/capacity-type": "on-demand"}); ok {
		t.Error("a node without an instance type")
	}
}

// The price on demand is that of the instance with Linux, without the charges of the node. Zones without subnets of an EC2NodeClass have the price of the others.
func TestUses(t *testing.T) {
	linux := []catalog.InstanceType{{
		Name: "m5.large", Charges: catalog.Charges{Volumes: 0.25},
		Offerings: []catalog.Offering{{Zone: "a", CapacityType: "spot", Price: 0.5}, {Zone: "a", CapacityType: "on-demand", Price: 1.25}},
	}}
	dearer := []catalog.InstanceType{{
		Name: "m5.large", Charges: catalog.Charges{License: 1}, Offerings: []catalog.Offering{{Zone: "a", CapacityType: "on-demand", Price: 2}},
	}}
	counts := map[catalog.Billed]int{{InstanceType: "m5.large", Zone: "a"}: 3, {InstanceType: "m5.large", Zone: "b"}: 1, {InstanceType: "x", Zone: "a"}: 1}
	want := []commitment.Use{
		{Name: "m5.large/a", Count: 3, InstanceType: "m5.large", Zone: "a", OnDemand: 1},
		{Name: "m5.large/b", Count: 1, InstanceType: "m5.large", Zone: "b", OnDemand: 1},
	}
	for range 20 { // Maps have no order.
		state := catalog.State{InstanceTypes: map[string][]catalog.InstanceType{"linux": linux, "windows": dearer, "linux/dedicated": dearer}}
		if diff := cmp.Diff(want, state.Uses(counts)); diff != "" {
			t.Fatal(diff)
		}
	}
}
