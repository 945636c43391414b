package movebound_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/consolidate"
	"github.com/slipway-k8s/slipway/plugin/consolidate/movebound"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// EC2 may launch any alternative in any zone that is left: none of them costs more than the limit, and none is what goes.
func TestBoundTrims(t *testing.T) {
	for _, nodeCost := range []float64{0, 0.4} {
		t.Run(fmt.Sprint("declared ", nodeCost), func(t *testing.T) { testBoundTrims(t, nodeCost) })
	}
}

func testBoundTrims(t *testing.T, nodeCost float64) {
	t.Helper()
	offering := func(zone, capacity string, price float64) catalog.Offering {
		return catalog.Offering{Zone: zone, CapacityType: capacity, Price: price, Available: true}
	}
	cat := catalog.State{
		NodePools: map[string]catalog.NodePool{"pool": {Name: "pool", NodeClass: "class", Declared: catalog.Declared{NodeCost: nodeCost}}},
		InstanceTypes: map[string][]catalog.InstanceType{"class": {
			{Name: "expected", Offerings: []catalog.Offering{
				offering("a", "on-demand", 1), offering("b", "on-demand", 1.1), offering("c", "on-demand", 3), offering("a", "spot", 8),
			}},
			{Name: "cheap", Offerings: []catalog.Offering{offering("a", "on-demand", 0.9), offering("b", "on-demand", 1), offering("a", "spot", 9)}},
			{Name: "dear-in-b", Offerings: []catalog.Offering{offering("a", "on-demand", 1), offering("b", "on-demand", 2)}},
			{Name: "dear-in-c", Offerings: []catalog.Offering{offering("a", "on-demand", 1), offering("c", "on-demand", 2)}},
			{Name: "goes", Offerings: []catalog.Offering{offering("a", "on-demand", 0.5)}},
		}},
	}
	in := func(key string, values ...string) catalog.Requirement {
		return catalog.Requirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
	}
	all := []string{"expected", "cheap", "dear-in-b", "dear-in-c", "goes"}
	c := plan.Claim{
		NodePool: "pool", Alternatives: all, Expected: plan.Offer{InstanceType: "expected", Zone: "a", CapacityType: "on-demand", Price: 1 + nodeCost},
		Requirements: []catalog.Requirement{
			in(corev1.LabelInstanceTypeStable, all...), in(corev1.LabelTopologyZone, "a", "b", "c"), in("karpenter.sh/capacity-type", "on-demand", "spot"),
		},
	}
	given := fmt.Sprint(c)
	b := movebound.Bound{
		Most: 1.5 + nodeCost, Going: []consolidate.Offer{{NodePool: "pool", InstanceType: "goes", CapacityType: "on-demand"}}, Catalog: cat,
	}
	claims := []plan.Claim{c}
	if why := b.Keep(claims); why != "" {
		t.Fatalf("refused: %s", why)
	}
	got := claims[0]
	// Zone c is out, since the expected type costs 3 there, and spot, where it costs 8; what is dear in b cannot be launched without
	// risking b.
	if diff := cmp.Diff([]string{"expected", "cheap", "dear-in-c"}, got.Alternatives); diff != "" {
		t.Errorf("alternatives (-want +got):\n%s", diff)
	}
	for i, want := range [][]string{{"expected", "cheap", "dear-in-c"}, {"a", "b"}, {"on-demand"}} {
		if diff := cmp.Diff(want, got.Requirements[i].Values); diff != "" {
			t.Errorf("requirement %s (-want +got):\n%s", got.Requirements[i].Key, diff)
		}
	}
	if fmt.Sprint(c) != given {
		t.Error("what was given has changed, which other claims may share")
	}
}

// A node that commitments pay for may be launched as no alternative that draws more on them than the planned one.
func TestBoundOfCoveredNode(t *testing.T) {
	types := []catalog.InstanceType{}
	for name, price := range map[string]float64{"expected": 1, "cheap": 0.9, "larger": 2} {
		types = append(types, catalog.InstanceType{Name: name, Offerings: []catalog.Offering{{Zone: "a", CapacityType: "on-demand", Price: price, Available: true}}})
	}
	b := movebound.Bound{Most: 0.3, Catalog: catalog.State{
		NodePools: map[string]catalog.NodePool{"pool": {Name: "pool", NodeClass: "class"}}, InstanceTypes: map[string][]catalog.InstanceType{"class": types},
	}}
	all := []string{"expected", "cheap", "larger"}
	claims := []plan.Claim{{
		NodePool: "pool", Alternatives: all, Covered: "sp", Expected: plan.Offer{InstanceType: "expected", Zone: "a", CapacityType: "on-demand", Price: 0.01},
		Requirements: []catalog.Requirement{
			{Key: corev1.LabelInstanceTypeStable, Operator: corev1.NodeSelectorOpIn, Values: all},
			{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}},
			{Key: "karpenter.sh/capacity-type", Operator: corev1.NodeSelectorOpIn, Values: []string{"on-demand"}},
		},
	}}
	if why := b.Keep(claims); why != "" {
		t.Fatalf("refused: %s", why)
	}
	if diff := cmp.Diff([]string{"expected", "cheap"}, claims[0].Alternatives); diff != "" {
		t.Errorf("alternatives (-want +got):\n%s", diff)
	}
}
