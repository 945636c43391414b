package plan_test

import (
	"math"
	"slices"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// charged is a catalog of one class with ordinary types of 2 to 32 CPUs for 0.04 USD per CPU and hour, and burstable ones of 2 CPUs that have a
// tenth of them as baseline, for less.
func charged(nodeCost float64, charges catalog.Charges) catalog.State {
	types := []catalog.InstanceType{}
	add := func(name string, cpu, gib int64, price float64, c catalog.Charges) {
		have := corev1.ResourceList{
			corev1.ResourceCPU: *resource.NewQuantity(cpu, resource.DecimalSI), corev1.ResourceMemory: *resource.NewQuantity(gib<<30, resource.BinarySI),
			corev1.ResourcePods: *resource.NewQuantity(110, resource.DecimalSI), corev1.ResourceEphemeralStorage: *resource.NewQuantity(20<<30, resource.BinarySI),
		}
		types = append(types, catalog.InstanceType{
			Name: name, Labels: map[string]string{corev1.LabelInstanceTypeStable: name}, Capacity: have, Allocatable: have, Charges: c,
			Offerings: []catalog.Offering{{Zone: "us-east-1a", CapacityType: "on-demand", Price: price + c.Fixed(), Available: true}},
		})
	}
	for _, n := range []int64{2, 4, 8, 16, 32} {
		add("m."+strconv.FormatInt(n, 10), n, 4*n, 0.04*float64(n), charges)
	}
	burstable := charges
	burstable.BaselineCPU, burstable.SurplusCPU = 200, 0.05
	add("t.nano", 2, 1, 0.005, burstable)
	add("t.small", 2, 2, 0.02, burstable)
	return catalog.State{
		NodePools:     map[string]catalog.NodePool{"default": {Name: "default", NodeClass: "class", Ready: true, Declared: catalog.Declared{NodeCost: nodeCost}}},
		InstanceTypes: map[string][]catalog.InstanceType{"class": types},
	}
}

func pending(cat catalog.State, n, milliCPU, mib int) plan.Input {
	in := plan.Input{Catalog: cat}
	newBatch(&in, 1).add(n, milliCPU, mib)
	return in
}

// checkCosts holds the bill of a plan against the catalog: each node costs its instance and all charges at the CPU that is requested on it.
func checkCosts(t *testing.T, in plan.Input, p plan.Plan) {
	t.Helper()
	sum := 0.0
	for _, c := range p.Claims {
		pool := in.Catalog.NodePools[c.NodePool]
		types := in.Catalog.InstanceTypes[pool.NodeClass]
		cost := func(name string) catalog.Cost {
			at := slices.IndexFunc(types, func(it catalog.InstanceType) bool { return it.Name == name })
			return types[at].CostOf(types[at].Offerings[0].Price, pool.Declared, c.Requests.Cpu().MilliValue())
		}
		if want := cost(c.Expected.InstanceType); math.Abs(c.Expected.Price-want.Total()) > 1e-9 || math.Abs(c.Cost.Total()-want.Total()) > 1e-9 {
			t.Errorf("%s costs %v (%s), want %s", c.Expected.InstanceType, c.Expected.Price, c.Cost, want)
		}
		for _, name := range c.Alternatives {
			if c.Cost.Burst == 0 && cost(name).Burst > 0 {
				t.Errorf("%s may be launched as %s, which would use more than its baseline", c.Expected.InstanceType, name)
			}
		}
		sum += c.Expected.Price
	}
	if math.Abs(sum-p.CostPerHour) > 1e-9 {
		t.Errorf("the bill is %v, the nodes cost %v", p.CostPerHour, sum)
	}
	if bound := plan.LowerBound(t.Context(), in, &p); bound > p.CostPerHour+1e-9 {
		t.Errorf("the bound is %v, the plan costs %v", bound, p.CostPerHour)
	}
}

// A burstable instance is worth its low price only as long as pods stay below its baseline.
func TestBurstIsPaidFor(t *testing.T) {
	cat := charged(0, catalog.Charges{})
	for _, tc := range []struct {
		n, milliCPU int
		want        string
	}{{1, 100, "t.nano"}, {1, 1800, "m.2"}, {64, 1000, "m.32"}} {
		in := pending(cat, tc.n, tc.milliCPU, 100)
		p := plan.Make(t.Context(), in)
		checkCosts(t, in, p)
		if len(p.Claims) == 0 || p.Claims[0].Expected.InstanceType != tc.want {
			t.Errorf("%d pods of %dm CPU have %d nodes, want %s first", tc.n, tc.milliCPU, len(p.Claims), tc.want)
		}
	}
	// Where nothing else is offered, the surplus is part of the bill.
	cat.InstanceTypes["class"] = slices.DeleteFunc(cat.InstanceTypes["class"], func(it catalog.InstanceType) bool { return it.Charges.BaselineCPU == 0 })
	in := pending(cat, 10, 500, 100)
	p := plan.Make(t.Context(), in)
	checkCosts(t, in, p)
	// A node of one pod costs 0.005 and 0.3 CPUs beyond the baseline; one of two pods costs more.
	if want := 10 * (0.005 + 0.3*0.05); len(p.Unplaced) > 0 || math.Abs(p.CostPerHour-want) > 1e-9 {
		t.Errorf("unplaced %v, %v USD per hour, want %v", p.Unplaced, p.CostPerHour, want)
	}
}

// What pods are assumed not to use is not paid for.
func TestIdleCPUIsNotPaidFor(t *testing.T) {
	cat := charged(0, catalog.Charges{})
	cat.InstanceTypes["class"] = slices.DeleteFunc(cat.InstanceTypes["class"], func(it catalog.InstanceType) bool { return it.Charges.BaselineCPU == 0 })
	before := math.Inf(1)
	for _, tc := range []struct{ idle, most float64 }{{0, 10 * (0.005 + 1.8*0.05/2)}, {0.5, 10 * (0.005 + 0.3*0.05)}, {0.8, 10 * (0.005 + 0.2*0.05/2)}, {0.9, 5 * 0.005}, {1, 5 * 0.005}} {
		pool := cat.NodePools["default"]
		pool.IdleCPU = tc.idle
		cat.NodePools["default"] = pool
		in := pending(cat, 10, 1000, 100)
		p := plan.Make(t.Context(), in)
		checkCosts(t, in, p)
		if len(p.Unplaced) > 0 || p.CostPerHour > tc.most+1e-9 || p.CostPerHour > before {
			t.Errorf("idle share %v: unplaced %v, %v USD per hour, want %v and %v at most", tc.idle, p.Unplaced, p.CostPerHour, tc.most, before)
		}
		before = p.CostPerHour
	}
}

// What each node costs beside its instance makes fewer and larger ones.
func TestChargesMakeNodesLarger(t *testing.T) {
	nodes := func(nodeCost float64, charges catalog.Charges) int {
		cat := charged(nodeCost, charges)
		cat.InstanceTypes["class"] = slices.DeleteFunc(cat.InstanceTypes["class"], func(it catalog.InstanceType) bool { return it.Charges.BaselineCPU > 0 })
		types := cat.InstanceTypes["class"]
		for i := range types { // Larger types are a little more expensive per CPU.
			types[i].Offerings[0].Price *= 1 + 0.002*float64(i)
		}
		in := pending(cat, 64, 1000, 1000)
		p := plan.Make(t.Context(), in)
		checkCosts(t, in, p)
		return len(p.Claims)
	}
	plain := nodes(0, catalog.Charges{})
	if got := nodes(0.02, catalog.Charges{}); got > plain/2 {
		t.Errorf("%d nodes with a declared cost, %d without", got, plain)
	}
	if got := nodes(0, catalog.Charges{Volumes: 0.01, PublicIPv4: 0.005}); got > plain/2 {
		t.Errorf("%d nodes with volumes and addresses, %d without", got, plain)
	}
}

// Random batches on types of which a part is burstable.
func TestCostsOfRandomBatches(t *testing.T) {
	for seed := range uint64(20) {
		in := world(t, 60, poolYAML{Name: "default"})
		for _, types := range in.Catalog.InstanceTypes {
			for i := range types {
				if i%3 == 0 {
					types[i].Charges = catalog.Charges{BaselineCPU: types[i].Allocatable.Cpu().MilliValue() / 5, SurplusCPU: 0.02}
				}
				types[i].Offerings = types[i].Offerings[:1]
			}
		}
		b := newBatch(&in, seed)
		b.shapes(80, 10, b.general)
		checkCosts(t, in, plan.Make(t.Context(), in))
	}
}
