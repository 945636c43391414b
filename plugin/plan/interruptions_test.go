package plan_test

import (
	"math"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// lossy returns a catalog of one type, spot in two zones: the first is cheaper, and has the expected loss for each pod.
func lossy(loss float64) catalog.State {
	cat := charged(0, catalog.Charges{})
	for i := range cat.InstanceTypes["class"] {
		it := &cat.InstanceTypes["class"][i]
		price := it.Offerings[0].Price
		it.Offerings = []catalog.Offering{
			{Zone: "us-east-1a", CapacityType: "spot", Price: price * 0.30, LossPerPod: loss, Available: true},
			{Zone: "us-east-1b", CapacityType: "spot", Price: price * 0.33, Available: true},
		}
	}
	return cat
}

// A zone whose spot nodes are interrupted often is left for another one once the expected loss is more than the difference in price, and
// the loss is a part of what a node costs. The claim does not name it then.
func TestExpectedLossDecides(t *testing.T) {
	for _, c := range []struct {
		name, zone string
		loss       float64
		named      []string
	}{{"rare", "us-east-1a", 1e-7, []string{"us-east-1a", "us-east-1b"}}, {"often", "us-east-1b", 0.01, []string{"us-east-1b"}}} {
		t.Run(c.name, func(t *testing.T) {
			in := pending(lossy(c.loss), 20, 900, 1000)
			in.Options.SpotShare = 1
			p := plan.Make(t.Context(), in)
			sum := 0.0
			for _, claim := range p.Claims {
				if claim.Expected.Zone != c.zone {
					t.Errorf("%s in %s, want %s", claim.Expected.InstanceType, claim.Expected.Zone, c.zone)
				}
				for _, r := range claim.Requirements {
					if want := c.named; r.Key == corev1.LabelTopologyZone && !slices.Equal(r.Values, want) {
						t.Errorf("the claim names zones %v, want %v: EC2 does not know what is lost", r.Values, want)
					}
				}
				pods := 0
				for _, m := range claim.Members {
					pods += len(m.Pods)
				}
				want := 0.0
				if claim.Expected.Zone == "us-east-1a" {
					want = c.loss * float64(pods)
				}
				if math.Abs(claim.Cost.Interruptions-want) > 1e-12 || math.Abs(claim.Cost.Total()-claim.Expected.Price) > 1e-9 {
					t.Errorf("cost %+v with price %v, want interruptions %v", claim.Cost, claim.Expected.Price, want)
				}
				sum += claim.Expected.Price
			}
			if len(p.Claims) == 0 || math.Abs(sum-p.CostPerHour) > 1e-9 {
				t.Errorf("%d claims cost %v, the plan says %v", len(p.Claims), sum, p.CostPerHour)
			}
		})
	}
}
