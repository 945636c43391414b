package plan_test

import (
	"slices"
	"testing"

	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// committed returns the part of a plan's bill that is paid beside commitments, and the share of them that is used.
func committed(in plan.Input, p *plan.Plan) (paid, used float64) {
	for i := range p.Claims {
		if p.Claims[i].Covered == "" {
			paid += p.Claims[i].Expected.Price
		}
	}
	return paid, plan.CommitmentUses(in, p)[0].Used()
}

// TestMixesWithCommitments plans mixes with a Compute Savings Plan that pays for about 60 % of them: it is used up but for what no node fits into,
// and the rest costs no more than the same share of the pods costs on spot.
func TestMixesWithCommitments(t *testing.T) {
	for _, c := range []struct {
		name string
		pods int
	}{{"forty-shapes", 1000}, {"small-200-shapes", 600}, {"memory-and-cpu", 700}, {"diverse-1000", 200}, {"everything", 200}} {
		t.Run(c.name, func(t *testing.T) {
			all := mixes()
			x := all[slices.IndexFunc(all, func(x mix) bool { return x.name == c.name })]
			x.spot = false
			in := x.input(t, c.pods, 1)
			in.Options.Budget = 0.25
			onDemand := plan.Make(t.Context(), in).CostPerHour
			x.spot = true
			in = x.input(t, c.pods, 1)
			in.Options.Budget = 0.25
			spot := plan.Make(t.Context(), in).CostPerHour
			const discount = 0.28
			in.Catalog.Commitments = []commitment.Commitment{{
				ID: "sp", Kind: commitment.ComputeSavingsPlan, USDPerHour: 0.6 * onDemand * (1 - discount), Discount: discount, Share: 1,
			}}
			p := plan.Make(t.Context(), in)
			check(t, in, p)
			paid, used := committed(in, &p)
			if paid > 1.1*0.4*spot || used < 0.98 {
				t.Errorf("%.4f USD/h are paid beside the commitments, of which %.4f is used: spot nodes alone cost %.4f", paid, used, spot)
			}
		})
	}
}
