package cover_test

import (
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
	"github.com/slipway-k8s/slipway/plugin/consolidate"
	"github.com/slipway-k8s/slipway/plugin/consolidate/cover"
)

func labels(capacityType string) map[string]string {
	return map[string]string{
		"node.kubernetes.io/instance-type": "m5.large", "topology.kubernetes.io/zone": "a", "karpenter.sh/capacity-type": capacityType,
	}
}

// Two and a half nodes are paid for, of five: one of another controller, which stays, then the fullest of the fleet. Charges are always paid.
func TestLower(t *testing.T) {
	cat := catalog.State{
		Commitments: []commitment.Commitment{{ID: "sp", Kind: commitment.ComputeSavingsPlan, USDPerHour: 2, Discount: 0.2, Share: 1}},
		InstanceTypes: map[string][]catalog.InstanceType{"class": {{
			Name: "m5.large", Charges: catalog.Charges{Volumes: 0.5}, Offerings: []catalog.Offering{{Zone: "a", CapacityType: "on-demand", Price: 1.5}},
		}}},
	}
	offer := consolidate.Offer{InstanceType: "m5.large", Zone: "a", CapacityType: "on-demand", Price: 1.5}
	spot := offer
	spot.CapacityType, spot.Price = "spot", 0.7
	fleet := []consolidate.Node{{Name: "empty", Offer: offer, Used: 0.1}, {Name: "full", Offer: offer, Used: 0.9}, {Name: "half", Offer: offer, Used: 0.5}, {Name: "spot", Offer: spot}}
	all := map[string]map[string]string{
		"empty": labels("on-demand"), "full": labels("on-demand"), "half": labels("on-demand"), "spot": labels("spot"), "other": labels("on-demand"),
	}
	cover.AddInFlight(all, map[string]catalog.InFlightNode{
		"coming": {NodeClaim: "coming", InstanceType: "m5.large", Zone: "a", CapacityType: "spot"},
		"joined": {NodeClaim: "joined", NodeName: "full", InstanceType: "m5.large", Zone: "a", CapacityType: "on-demand"},
	})
	cover.Lower(cat, fleet, all)
	for i, want := range []float64{1.5, 0.5 + 0.008, 1.5 - 0.5*0.992, 0.7} {
		if got := fleet[i].Price; math.Abs(got-want) > 1e-9 {
			t.Errorf("%s costs %v, want %v", fleet[i].Name, got, want)
		}
	}
}

// A plan pays for 4 USD of 5 on demand. What counts as not covered is the node that a spot node may replace, though AWS pays for it first, and though it is the
// fullest. Of the others, each saves 1 USD if it is removed, since the plan then pays for another one.
func TestWhatMayBeReplacedIsNotCovered(t *testing.T) {
	only := func(name, capacityType string) catalog.NodePool {
		return catalog.NodePool{Name: name, NodeClass: "class", Requirements: []catalog.Requirement{{
			Key: "karpenter.sh/capacity-type", Operator: corev1.NodeSelectorOpIn, Values: []string{"on-demand", capacityType},
		}}}
	}
	kind := func(name string, price float64) catalog.InstanceType {
		return catalog.InstanceType{Name: name, Offerings: []catalog.Offering{{Zone: "a", CapacityType: "on-demand", Price: price}}}
	}
	cat := catalog.State{
		Commitments:   []commitment.Commitment{{ID: "sp", Kind: commitment.ComputeSavingsPlan, USDPerHour: 3.2, Discount: 0.2, Share: 1}},
		InstanceTypes: map[string][]catalog.InstanceType{"class": {kind("m5.large", 1), kind("m5.xlarge", 2)}},
	}
	for name, tc := range map[string]struct {
		flexible string
		want     map[string]float64
	}{
		"one may be spot": {"spot", map[string]float64{"steady": 1, "large": 1, "flexible": 1}},
		"none may":        {"on-demand", map[string]float64{"steady": 1, "large": 1.008, "flexible": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			cat.NodePools = map[string]catalog.NodePool{"steady": only("steady", "on-demand"), "flexible": only("flexible", tc.flexible)}
			fleet, all := []consolidate.Node{}, map[string]map[string]string{}
			for _, n := range []struct {
				name, pool, instanceType string
				price, used              float64
			}{{"steady", "steady", "m5.xlarge", 2, 0.5}, {"large", "steady", "m5.xlarge", 2, 0.4}, {"flexible", "flexible", "m5.large", 1, 0.9}} {
				fleet = append(fleet, consolidate.Node{Name: n.name, Used: n.used, Offer: consolidate.Offer{
					NodePool: n.pool, InstanceType: n.instanceType, Zone: "a", CapacityType: "on-demand", Price: n.price,
				}})
				all[n.name] = labels("on-demand")
				all[n.name]["node.kubernetes.io/instance-type"] = n.instanceType
			}
			cover.Lower(cat, fleet, all)
			for i := range fleet {
				if n := &fleet[i]; math.Abs(n.Price-tc.want[n.Name]) > 1e-9 {
					t.Errorf("%s costs %v, want %v", n.Name, n.Price, tc.want[n.Name])
				}
			}
		})
	}
}

// A plan pays for both nodes on demand, and no more. What they use of it is worth the spot nodes that could be on demand in their place, and nothing where a part
// of the plan is left or no spot node could be.
func TestWhatACommitmentIsWorthElsewhere(t *testing.T) {
	for name, tc := range map[string]struct {
		usd  float64
		spot []string
		want float64
	}{
		"used up":               {1.6, []string{"on-demand", "spot"}, 0.3},
		"a part is left":        {1.7, []string{"on-demand", "spot"}, 0.008},
		"spot is spot":          {1.6, []string{"spot"}, 0.008},
		"one more is uncovered": {0.8, []string{"on-demand", "spot"}, 1},
	} {
		need := func(types ...string) []catalog.Requirement {
			return []catalog.Requirement{{Key: "karpenter.sh/capacity-type", Operator: corev1.NodeSelectorOpIn, Values: types}}
		}
		cat := catalog.State{
			Commitments: []commitment.Commitment{{ID: "sp", Kind: commitment.ComputeSavingsPlan, USDPerHour: tc.usd, Discount: 0.2, Share: 1}},
			NodePools:   map[string]catalog.NodePool{"steady": {Name: "steady", NodeClass: "class", Requirements: need("on-demand")}, "spot": {Name: "spot", NodeClass: "class", Requirements: need(tc.spot...)}},
			InstanceTypes: map[string][]catalog.InstanceType{"class": {{Name: "m5.large", Offerings: []catalog.Offering{
				{Zone: "a", CapacityType: "on-demand", Price: 1}, {Zone: "a", CapacityType: "spot", Price: 0.3},
			}}}},
		}
		fleet, all := []consolidate.Node{}, map[string]map[string]string{}
		for _, n := range []string{"full", "half", "spot"} {
			one := consolidate.Node{Name: n, Used: map[string]float64{"full": 1, "half": 0.5}[n], Offer: consolidate.Offer{NodePool: "steady", InstanceType: "m5.large", Zone: "a", CapacityType: "on-demand", Price: 1}}
			if n == "spot" {
				one.NodePool, one.CapacityType, one.Price = "spot", "spot", 0.3
			}
			fleet, all[n] = append(fleet, one), labels(one.CapacityType)
		}
		cover.Lower(cat, fleet, all)
		if got := fleet[0].Price; math.Abs(got-tc.want) > 1e-9 || fleet[2].Price != 0.3 {
			t.Errorf("%s: a covered node costs %v, want %v; fleet %+v", name, got, tc.want, fleet)
		}
	}
}

// What a NodeOverlay prices keeps its price, and commitments pay by AWS's price for the others.
func TestOverlaidPriceStays(t *testing.T) {
	of := catalog.Offering{Zone: "a", CapacityType: "on-demand", Price: 1}
	own := of
	own.Price, own.Overlaid = 0.3, true
	cat := catalog.State{
		Commitments: []commitment.Commitment{{ID: "sp", Kind: commitment.ComputeSavingsPlan, USDPerHour: 8, Discount: 0.2, Share: 1}},
		NodePools:   map[string]catalog.NodePool{"own": {Name: "own", NodeClass: "class", Overlaid: "class/own"}, "other": {Name: "other", NodeClass: "class"}},
		InstanceTypes: map[string][]catalog.InstanceType{
			"class": {{Name: "m5.large", Offerings: []catalog.Offering{of}}}, "class/own": {{Name: "m5.large", Offerings: []catalog.Offering{own}}},
		},
	}
	fleet := []consolidate.Node{{Name: "own"}, {Name: "other"}}
	all := map[string]map[string]string{}
	for i := range fleet {
		n := &fleet[i]
		n.Offer = consolidate.Offer{NodePool: n.Name, InstanceType: "m5.large", Zone: "a", CapacityType: "on-demand"}
		n.SetPrice(cat, nil)
		all[n.Name] = labels("on-demand")
	}
	cover.Lower(cat, fleet, all)
	for i, want := range []float64{0.3, 0.008} {
		if got := fleet[i].Price; math.Abs(got-want) > 1e-9 {
			t.Errorf("%s costs %v, want %v", fleet[i].Name, got, want)
		}
	}
}
