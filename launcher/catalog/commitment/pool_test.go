package commitment

import (
	"slices"
	"testing"
)

func TestPools(t *testing.T) {
	list := []Commitment{
		{ID: "sp-a", Kind: ComputeSavingsPlan, USDPerHour: 1, Discount: 0.2, Share: 1},
		{ID: "m5-b", Kind: ReservedInstances, InstanceType: "m5.large", Count: 2, Share: 1},
		{ID: "sp-b", Kind: ComputeSavingsPlan, USDPerHour: 3, Discount: 0.4, Share: 1},
		{ID: "none", Kind: ComputeSavingsPlan, USDPerHour: 3, Discount: 0.4},
		{ID: "zonal", Kind: ReservedInstances, InstanceType: "m5.large", Count: 2, Zone: "a", Share: 1},
		{ID: "m5-c", Kind: ReservedInstances, InstanceType: "m5.xlarge", Count: 1, Share: 0.5},
		{ID: "m5", Kind: EC2InstanceSavingsPlan, Family: "m5", USDPerHour: 1, Discount: 0.5, Share: 1},
	}
	pools := Pools(list)
	var names []string
	for _, p := range pools {
		names = append(names, p.Name)
	}
	if want := []string{"zonal", "m5-b and 1 more", "m5", "sp-a and 1 more"}; !slices.Equal(names, want) {
		t.Fatalf("%q, want %q", names, want)
	}
	family, compute := pools[1], pools[3]
	if family.Amount != 12 || compute.Amount != 4 || compute.LeftOf([]float64{0.5, 9, 2, 9, 9, 9, 9}) != 2.5 {
		t.Errorf("%v and %v", family.Amount, compute.Amount)
	}
	if draw, ok := compute.Draw("c5.large", "a", 0.1); !ok || !near(draw, (0.08*1+0.06*3)/4) {
		t.Errorf("draws %v, %v of Savings Plans with different rates", draw, ok)
	}
	if draw, ok := family.Draw("m5.2xlarge", "b", 0.4); !ok || draw != 16 || !near(family.Price(draw, 0.4), 0.004) {
		t.Errorf("draws %v, %v of Reserved Instances, at %v", draw, ok, family.Price(draw, 0.4))
	}
	if _, ok := family.Draw("c5.large", "b", 0.1); ok {
		t.Error("Reserved Instances pay for another family")
	}
}

// Several equal nodes are one use: what is left is the same.
func TestApplyCounts(t *testing.T) {
	list := []Commitment{{ID: "a", Kind: ComputeSavingsPlan, USDPerHour: 0.5, Discount: 0.2, Share: 1}}
	got := Apply(list, []Use{{Name: "n", Count: 4, InstanceType: "m5.large", OnDemand: 0.1}})
	if !near(got.Left[0], 0.5-0.32) || got.Covered["n"] != 1 {
		t.Errorf("%+v", got)
	}
	if got := Apply(list, []Use{{Name: "n", Count: 10, InstanceType: "m5.large", OnDemand: 0.1}}); got.Left[0] != 0 || !near(got.Covered["n"], 0.5/0.8) {
		t.Errorf("%+v", got)
	}
}
