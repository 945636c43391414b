package cover_test

import (
	"math"
	"testing"

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
