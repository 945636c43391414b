package simulate_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/simulate"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
	"github.com/slipway-k8s/slipway/plugin/simulate/market"
)

// smallPods is n pods of 50m to 500m CPU and 64 to 1024 MiB, and a NodePool that allows all instance types.
func smallPods(n int) *input.Objects {
	rng := rand.New(rand.NewPCG(1, 1))
	r := input.NewReader()
	pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default"}}
	pool.Spec.Template.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}
	r.Add(pool)
	cpus, mibs := []int64{50, 100, 200, 250, 500}, []int64{64, 128, 256, 512, 1024}
	for i := range n {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("p%d", i)}}
		p.Spec.Containers = []corev1.Container{{Name: "main", Image: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU:    *resource.NewMilliQuantity(cpus[rng.IntN(len(cpus))], resource.DecimalSI),
			corev1.ResourceMemory: *resource.NewQuantity(mibs[rng.IntN(len(mibs))]<<20, resource.BinarySI),
		}}}}
		r.Add(p)
	}
	return r.Finish()
}

// listPrices is the input as it looks to a planner that knows the prices of instances and nothing else.
func listPrices(in plan.Input) plan.Input {
	types := map[string][]catalog.InstanceType{}
	for class, list := range in.Catalog.InstanceTypes {
		for _, t := range list {
			t.Offerings = slices.Clone(t.Offerings)
			for i := range t.Offerings {
				t.Offerings[i].Price -= t.Charges.Fixed()
			}
			t.Charges = catalog.Charges{}
			types[class] = append(types[class], t)
		}
	}
	in.Catalog.InstanceTypes = types
	return in
}

// trueCost returns what the claims' nodes cost by the catalog, and the part of it that is surplus CPU, in USD per hour.
func trueCost(t *testing.T, cat catalog.State, claims []plan.Claim) (total, burst float64) {
	t.Helper()
	for i := range claims {
		c := &claims[i]
		types := cat.InstanceTypes[cat.NodePools[c.NodePool].NodeClass]
		it := &types[slices.IndexFunc(types, func(it catalog.InstanceType) bool { return it.Name == c.Expected.InstanceType })]
		at := slices.IndexFunc(it.Offerings, func(o catalog.Offering) bool {
			return o.Zone == c.Expected.Zone && o.CapacityType == c.Expected.CapacityType
		})
		cost := it.CostOf(it.Offerings[at].Price, catalog.Declared{}, c.Requests.Cpu().MilliValue())
		total, burst = total+cost.Total(), burst+cost.Burst
	}
	return total, burst
}

// Small pods on an open NodePool: planned by list prices alone they get a hundred burstable nodes, most of whose bill is surplus CPU.
func TestPlansCostLessThanListPricesMakeThem(t *testing.T) {
	m, err := market.Read(market.Files{})
	if err != nil {
		t.Fatal(err)
	}
	out, err := simulate.Run(t.Context(), smallPods(1000), m, simulate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	cost, burst := trueCost(t, out.Input.Catalog, out.Plan.Claims)
	naive := plan.Make(t.Context(), listPrices(out.Input))
	naiveCost, naiveBurst := trueCost(t, out.Input.Catalog, naive.Claims)
	bound := out.LowerBound(t.Context())
	t.Logf("by what nodes cost: %d nodes for %.3f USD per hour, %.3f of it surplus CPU, %.3f of the bound; by list prices: %d nodes, %.3f, %.3f",
		len(out.Plan.Claims), cost, burst, cost/bound, len(naive.Claims), naiveCost, naiveBurst)
	if len(out.Plan.Claims) > len(naive.Claims)/2 || cost > 0.85*naiveCost || cost > 1.03*bound {
		t.Errorf("%d nodes for %.3f, by list prices %d for %.3f; the bound is %.3f", len(out.Plan.Claims), cost, len(naive.Claims), naiveCost, bound)
	}
}
