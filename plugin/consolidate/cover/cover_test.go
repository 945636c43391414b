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

// A plan pays for two of three nodes. The one that counts as not covered is the one that a spot node may replace, though AWS pays for it first, and
// though it is the fullest; without any such node it is the emptiest.
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
		"one may be spot": {"spot", map[string]float64{"steady": 0.016, "large": 0.016, "flexible": 1}},
		"none may":        {"on-demand", map[string]float64{"steady": 0.016, "large": 2 - 0.5*(2-0.016), "flexible": 0.008}},
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
