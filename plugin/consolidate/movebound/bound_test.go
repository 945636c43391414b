package movebound_test

import (
	"fmt"
	"strings"
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

// lettered returns instance types of one offering each, a letter for the name and the price in order, and a label with half as many values.
func lettered(n int, capacityTypes ...string) (types []catalog.InstanceType, names []string) {
	for i := range n {
		t := catalog.InstanceType{Name: string(rune('a' + i)), Labels: map[string]string{"family": fmt.Sprint(i / 2)}}
		for j, c := range capacityTypes {
			t.Offerings = append(t.Offerings, catalog.Offering{Zone: "a", CapacityType: c, Price: float64(1 + i + 100*j), Available: true})
		}
		types, names = append(types, t), append(names, t.Name)
	}
	return types, names
}

// A move's claim keeps the minValues of its NodePool after the expensive alternatives are taken out, or the move is refused: the launch
// would fail.
func TestBoundKeepsMinValues(t *testing.T) {
	for _, tc := range []struct {
		name string
		// types is how many the claim names; most is the price up to which they may be launched.
		types, most int
		capacity    []string
		going       string
		// key asks for min values.
		key        string
		min        int32
		bestEffort bool
		// kept is how many types the claim names afterwards; refused is a part of the reason.
		kept    int
		refused string
	}{
		{name: "enough types are cheap", types: 4, most: 2, key: corev1.LabelInstanceTypeStable, min: 2, kept: 2},
		{name: "the second type is too expensive", types: 4, most: 1, key: corev1.LabelInstanceTypeStable, min: 2, refused: "2 values of node.kubernetes.io/instance-type"},
		{name: "BestEffort takes what is left", types: 4, most: 1, key: corev1.LabelInstanceTypeStable, min: 2, bestEffort: true, kept: 1},
		{name: "the second family is too expensive", types: 4, most: 2, key: "family", min: 2, refused: "have 1"},
		{name: "on-demand is too expensive", types: 2, most: 2, capacity: []string{"spot", "on-demand"}, key: "karpenter.sh/capacity-type", min: 2, refused: "have 1"},
		{name: "a spot node for a spot node", types: 22, most: 22, capacity: []string{"spot"}, going: "spot", key: "family", min: 3, kept: 15},
		{name: "a spot node for a spot node, more families than 15 types have", types: 22, most: 22, capacity: []string{"spot"}, going: "spot", key: "family", min: 10, kept: 19},
		{name: "a spot node for a spot node, BestEffort", types: 22, most: 16, capacity: []string{"spot"}, going: "spot", key: "family", min: 10, bestEffort: true, kept: 16},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.capacity == nil {
				tc.capacity = []string{"on-demand"}
			}
			types, names := lettered(tc.types, tc.capacity...)
			in := func(key string, values ...string) catalog.Requirement {
				r := catalog.Requirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
				if key == tc.key {
					r.MinValues = tc.min
				}
				return r
			}
			claims := []plan.Claim{{
				NodePool: "pool", Alternatives: names, Expected: plan.Offer{InstanceType: "a", Zone: "a", CapacityType: tc.capacity[0], Price: 1},
				Requirements: []catalog.Requirement{
					in(corev1.LabelInstanceTypeStable, names...), in(corev1.LabelTopologyZone, "a"), in("karpenter.sh/capacity-type", tc.capacity...),
					{Key: "family", Operator: corev1.NodeSelectorOpExists, MinValues: map[bool]int32{true: tc.min}[tc.key == "family"]},
				},
			}}
			b := movebound.Bound{
				Most: float64(tc.most), SpotToSpot: true, MinValuesBestEffort: tc.bestEffort,
				Going: []consolidate.Offer{{NodePool: "pool", InstanceType: "goes", CapacityType: tc.going}},
				Catalog: catalog.State{
					NodePools:     map[string]catalog.NodePool{"pool": {Name: "pool", NodeClass: "class"}},
					InstanceTypes: map[string][]catalog.InstanceType{"class": types},
				},
			}
			why := b.Keep(claims)
			if (why == "") != (tc.refused == "") || !strings.Contains(why, tc.refused) {
				t.Fatalf("refused: %q, want %q", why, tc.refused)
			}
			if tc.refused == "" && len(claims[0].Alternatives) != tc.kept {
				t.Errorf("types %v, want %d", claims[0].Alternatives, tc.kept)
			}
		})
	}
}
