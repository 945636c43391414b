package plan_test

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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

// TestMixesWithCommitments plans mixes with a Compute Savings Plan that pays for about 60% of them: it is used up but for what no node fits into,
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

// A NodeOverlay's price wins over a commitment: what it prices is not covered, costs what it says, and leaves the commitment to other nodes.
func TestOverlaidPricesAreNotCovered(t *testing.T) {
	all := mixes()
	x := all[slices.IndexFunc(all, func(x mix) bool { return x.name == "forty-shapes" })]
	x.spot = false
	bought := func(overlaid, committed bool) plan.Plan {
		in := x.input(t, 60, 1)
		for key, types := range in.Catalog.InstanceTypes {
			types = slices.Clone(types)
			for i := range types {
				types[i].Offerings = slices.Clone(types[i].Offerings)
				for k := range types[i].Offerings {
					types[i].Offerings[k].Overlaid = overlaid
				}
			}
			in.Catalog.InstanceTypes[key] = types
		}
		if committed {
			in.Catalog.Commitments = []commitment.Commitment{{ID: "sp", Kind: commitment.ComputeSavingsPlan, USDPerHour: 1000, Discount: 0.28, Share: 1}}
		}
		p := plan.Make(t.Context(), in)
		check(t, in, p)
		return p
	}
	plain, overlaid, covered := bought(false, false), bought(true, true), bought(false, true)
	if math.Abs(overlaid.CostPerHour-plain.CostPerHour) > 1e-9 || covered.CostPerHour > plain.CostPerHour/10 {
		t.Errorf("%v USD/h with prices of NodeOverlays, %v without commitments, %v covered", overlaid.CostPerHour, plain.CostPerHour, covered.CostPerHour)
	}
	for i := range overlaid.Claims {
		if c := &overlaid.Claims[i]; c.Covered != "" {
			t.Errorf("%s is covered by %s", c.Name, c.Covered)
		}
	}
}

// TestPropertiesWithCommitments plans random batches with random commitments: each plan is valid, the same each time, and draws no more on
// commitments than they hold.
func TestPropertiesWithCommitments(t *testing.T) {
	for seed := range uint64(60) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			in := withCommitments(randomInput(t, seed), seed)
			p := plan.Make(t.Context(), in)
			check(t, in, p)
			checkRelations(t, in, p)
			checkDraws(t, in, p)
			if again := plan.Make(t.Context(), withCommitments(randomInput(t, seed), seed)); !reflect.DeepEqual(p, again) {
				t.Errorf("the same input gave another plan:\n%+v\n%+v", p, again)
			}
			other := withCommitments(reordered(randomInput(t, seed), seed), seed)
			if diff := cmp.Diff(shape(in, p), shape(other, plan.Make(t.Context(), other))); diff != "" {
				t.Errorf("the order of the input changes the plan:\n%s", diff)
			}
		})
	}
}

// withCommitments adds up to four commitments for the instance types of the input.
func withCommitments(in plan.Input, seed uint64) plan.Input {
	rng := rand.New(rand.NewPCG(seed, 6))
	var names []string
	for _, types := range in.Catalog.InstanceTypes {
		for i := range types {
			names = append(names, types[i].Name)
		}
	}
	slices.Sort(names)
	for i := range 1 + rng.IntN(4) {
		name := names[rng.IntN(len(names))]
		c := commitment.Commitment{ID: strconv.Itoa(i), Kind: commitment.ComputeSavingsPlan, USDPerHour: rng.Float64() * 2, Discount: 0.2 + rng.Float64()/2, Share: 1}
		switch rng.IntN(3) {
		case 0:
			c = commitment.Commitment{ID: c.ID, Kind: commitment.ReservedInstances, InstanceType: name, Count: 1 + rng.IntN(4), Share: 1}
			c.Zone = []string{"", "us-east-1a", "us-east-1b"}[rng.IntN(3)]
		case 1:
			c.Kind = commitment.EC2InstanceSavingsPlan
			c.Family, _, _ = strings.Cut(name, ".")
		}
		in.Catalog.Commitments = append(in.Catalog.Commitments, c)
	}
	return in
}

// checkDraws holds the covered nodes of a plan against what the nodes of its input leave of the commitments.
func checkDraws(t *testing.T, in plan.Input, p plan.Plan) {
	t.Helper()
	var left []float64
	for _, u := range plan.CommitmentUses(in, &plan.Plan{}) {
		left = append(left, u.Left)
	}
	for _, pool := range commitment.Pools(in.Catalog.Commitments) {
		drawn := 0.0
		for i := range p.Claims {
			c := &p.Claims[i]
			if c.Covered != pool.Name {
				continue
			}
			onDemand := 0.0
			for _, it := range in.Catalog.InstanceTypes[in.Catalog.NodePools[c.NodePool].NodeClass] {
				for _, o := range it.Offerings {
					if it.Name == c.Expected.InstanceType && o.Zone == c.Expected.Zone && o.CapacityType == c.Expected.CapacityType {
						onDemand = o.Price - it.Charges.Fixed()
					}
				}
			}
			draw, ok := pool.Draw(c.Expected.InstanceType, c.Expected.Zone, onDemand)
			if !ok || c.Expected.CapacityType != "on-demand" {
				t.Errorf("%s is covered by %s, which does not pay for %+v", c.Name, pool.Name, c.Expected)
			}
			drawn += draw
		}
		if most := pool.LeftOf(left); drawn > most+1e-5 {
			t.Errorf("%v is drawn on %s, which has %v left", drawn, pool.Name, most)
		}
	}
}
