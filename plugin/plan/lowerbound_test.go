package plan_test

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/slipway-k8s/slipway/plugin/plan"
)

// TestLowerBound asks for the bound between two plans of one Maker: the plan is the same before and after, and the bound is below
// its bill, close to it, and does not depend on the order of the input.
func TestLowerBound(t *testing.T) {
	all := mixes()
	for name, n := range map[string]int{"forty-shapes": 60, "small-200-shapes": 300, "diverse-1000": 60, "everything": 120, "preferences": 60} {
		t.Run(name, func(t *testing.T) {
			x := all[slices.IndexFunc(all, func(x mix) bool { return x.name == name })]
			in := x.input(t, n, 7)
			in.Options.Budget = 0.1
			var maker plan.Maker
			p := maker.Make(t.Context(), in)
			bound := plan.LowerBound(t.Context(), in, &p)
			if again := maker.Make(t.Context(), in); !reflect.DeepEqual(p, again) {
				t.Errorf("once the bound is known the plan is another:\n%+v\n%+v", p, again)
			}
			if bound > p.CostPerHour+1e-9 || bound < p.CostPerHour*0.7 {
				t.Errorf("the bound is %.4f, the bill %.4f USD per hour", bound, p.CostPerHour)
			}
			other := reordered(x.input(t, n, 7), 2)
			other.Options.Budget = 0.1
			q := plan.Make(t.Context(), other)
			if got := plan.LowerBound(t.Context(), other, &q); math.Abs(got-bound) > 1e-9 {
				t.Errorf("in another order the bound is %.6f, it was %.6f", got, bound)
			}
		})
	}
}

// TestLowerBoundOfAnother has fewer pods on new nodes than the plan that was packed: what was proven for all of them does not
// hold for those that are left.
func TestLowerBoundOfAnother(t *testing.T) {
	all := mixes()
	x := all[slices.IndexFunc(all, func(x mix) bool { return x.name == "forty-shapes" })]
	in := x.input(t, 60, 7)
	p := plan.Make(t.Context(), in)
	whole := plan.LowerBound(t.Context(), in, &p)
	for len(p.Claims) > 0 {
		p.CostPerHour -= p.Claims[0].Expected.Price
		p.Claims = p.Claims[1:]
		bound := plan.LowerBound(t.Context(), in, &p)
		if bound > p.CostPerHour+1e-9 || bound > whole+1e-9 || bound <= 0 && len(p.Claims) > 0 {
			t.Fatalf("%d claims cost %.4f, the bound is %.4f", len(p.Claims), p.CostPerHour, bound)
		}
	}
}
