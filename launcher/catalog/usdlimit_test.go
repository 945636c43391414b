package catalog_test

import (
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// A node counts what is charged for it at most: its price, what the NodePool declares, and the surplus of all of its CPU as far as pods use it. Expected
// interruptions are not charged.
func TestLimitedUSD(t *testing.T) {
	it := catalog.InstanceType{
		Name: "t3.large", Charges: catalog.Charges{Volumes: 0.002, BaselineCPU: 600, SurplusCPU: 0.05},
		Allocatable: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1600m")},
		Offerings: []catalog.Offering{
			{Zone: "a", CapacityType: "spot", Price: 0.03, LossPerPod: 5}, {Zone: "b", CapacityType: "spot", Price: 0.04}, {Zone: "a", CapacityType: "on-demand", Price: 0.0852},
		},
	}
	for _, tc := range []struct {
		declared catalog.Declared
		want     int64
	}{
		{catalog.Declared{}, 30_000 + 50_000},
		{catalog.Declared{NodeCost: 0.02}, 100_000},
		{catalog.Declared{IdleCPU: 0.5}, 30_000 + 10_000},
		{catalog.Declared{IdleCPU: 1}, 30_000},
	} {
		prices := catalog.Prices{Types: map[string]catalog.InstanceType{it.Name: it}, Declared: tc.declared}
		if got, known := prices.At(it.Name, "a", "spot"); got != tc.want || !known {
			t.Errorf("%+v: %d millionths, known %t, want %d", tc.declared, got, known, tc.want)
		}
	}
	prices := catalog.Prices{Types: map[string]catalog.InstanceType{it.Name: it}, Declared: catalog.Declared{IdleCPU: 1}}
	if _, known := prices.At(it.Name, "b", "on-demand"); known {
		t.Error("an offering that does not exist is known")
	}
	for _, tc := range []struct {
		reqs []catalog.Requirement
		want int64
	}{
		{nil, 85_200},
		{[]catalog.Requirement{{Key: "karpenter.sh/capacity-type", Operator: "In", Values: []string{"spot"}}}, 40_000},
		{[]catalog.Requirement{{Key: "topology.kubernetes.io/zone", Operator: "NotIn", Values: []string{"a"}}}, 40_000},
		{[]catalog.Requirement{{Key: "topology.kubernetes.io/zone", Operator: "In", Values: []string{"c"}}}, 0},
	} {
		reqs, err := catalog.NewRequirements(tc.reqs)
		if err != nil {
			t.Fatal(err)
		}
		if got := prices.Most([]string{"m5.large", it.Name}, reqs); got != tc.want {
			t.Errorf("%v: %d at most, want %d", tc.reqs, got, tc.want)
		}
	}
}

// Millionths survive being a quantity, and what is no amount, or is endless, is bounded.
func TestMicroUSD(t *testing.T) {
	for usd, want := range map[float64]int64{0.0982: 98_200, 0.09819178: 98_192, 12.5: 12_500_000, 1e-7: 1, -1: 0, math.NaN(): 0, math.Inf(1): 1 << 53} {
		got := catalog.MicroUSD(usd)
		if back := catalog.MicroUSDOf(catalog.USDQuantity(got)); got != want || back != want && want < 1<<53 {
			t.Errorf("%v is %d millionths, and %d again, want %d", usd, got, back, want)
		}
	}
	for text, want := range map[string]int64{"12.5": 12_500_000, "1e18": 1 << 53, "-1e18": -1 << 53, "100m": 100_000} {
		if got := catalog.MicroUSDOf(resource.MustParse(text)); got != want {
			t.Errorf("%s is %d millionths, want %d", text, got, want)
		}
	}
}

func TestUnknownLimits(t *testing.T) {
	one := resource.MustParse("1")
	if err := catalog.UnknownLimits(corev1.ResourceList{"cpu": one, "nvidia.com/gpu": one, catalog.LimitUSD: one}); err != nil {
		t.Error(err)
	}
	err := catalog.UnknownLimits(corev1.ResourceList{"slipway.dev/usd-per-day": one})
	if want := "slipway.dev/usd-per-day: slipway.dev/usd-per-hour is the only limit of slipway's own"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
