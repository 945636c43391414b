package link

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// Commitments stay until the launcher sends others, and a full state without any has none.
func TestCommitmentsAreReceived(t *testing.T) {
	first := apply(catalog.State{}, &api.CatalogUpdate{Full: true, Commitments: &api.Commitments{List: []*api.Commitment{
		{Id: "sp", Kind: "EC2InstanceSavingsPlan", UsdPerHour: 2, Discount: 0.25, Rates: map[string]float64{"m5.large": 0.07}, Family: "m5", Share: 0.5},
		{Id: "ri", Kind: "ReservedInstances", InstanceType: "m5.large", Count: 3, Zone: "a", Share: 1},
	}}})
	want := []commitment.Commitment{
		{ID: "sp", Kind: commitment.EC2InstanceSavingsPlan, USDPerHour: 2, Discount: 0.25, Rates: map[string]float64{"m5.large": 0.07}, Family: "m5", Share: 0.5},
		{ID: "ri", Kind: commitment.ReservedInstances, InstanceType: "m5.large", Count: 3, Zone: "a", Share: 1},
	}
	if diff := cmp.Diff(want, first.State.Commitments); diff != "" || !first.Offers {
		t.Errorf("offers changed %t: %s", first.Offers, diff)
	}
	second := apply(first.State, &api.CatalogUpdate{})
	if &second.State.Commitments[0] != &first.State.Commitments[0] || second.Offers {
		t.Error("a message without commitments changes them")
	}
	if third := apply(first.State, &api.CatalogUpdate{Commitments: &api.Commitments{}}); len(third.State.Commitments) > 0 || !third.Offers {
		t.Errorf("still %v", third.State.Commitments)
	}
	if full := apply(first.State, &api.CatalogUpdate{Full: true}); len(full.State.Commitments) > 0 {
		t.Errorf("a full state has %v", full.State.Commitments)
	}
	if got := claim(plan.Claim{Covered: "sp"}).GetExpected().GetCoveredBy(); got != "sp" {
		t.Errorf("a claim is covered by %q", got)
	}
}
