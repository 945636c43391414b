package plan_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/plugin/plan"
)

// zonal is a few pods in three zones with prices of their own, of which those of the first class spread.
type zonal struct {
	in plan.Input
	// sizes are what types have, prices what they cost, by type and zone.
	sizes  [][2]int
	prices [][]float64
	// pods are what each pod requests; the first of them spread, with so much skew.
	pods [][2]int
	even int
	skew int32
}

func newZonal(t *testing.T, seed uint64, how corev1.UnsatisfiableConstraintAction) zonal {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 29))
	out := zonal{even: 3 + rng.IntN(3), skew: int32(1 + rng.IntN(2))}
	c := catalogYAML{Zones: []string{"us-east-1a", "us-east-1b", "us-east-1c"}, Pools: []poolYAML{{Name: "default"}}}
	for i := range 2 + rng.IntN(2) {
		cpu, mib := 1000*(1+rng.IntN(6)), 1024*(1+rng.IntN(12))
		price := 0.02 * float64(1+rng.IntN(20))
		prices := []float64{price, price * (1 + 0.1*float64(rng.IntN(6))), price * (1 + 0.1*float64(rng.IntN(6)))}
		out.sizes, out.prices = append(out.sizes, [2]int{cpu, mib}), append(out.prices, prices)
		c.Types = append(c.Types, fmt.Sprintf("m%d.large amd64 %dm %dMi spot=%.4f,%.4f,%.4f", i, cpu, mib, prices[0], prices[1], prices[2]))
	}
	out.in = c.input(t)
	out.in.Options.SpotShare, out.in.PreferenceShare = 1, 10
	for class, n := range []int{out.even, rng.IntN(3)} {
		cpu, mib := 100*(1+rng.IntN(20)), 128*(1+rng.IntN(20))
		name := "app-" + strconv.Itoa(class)
		for range n {
			out.pods = append(out.pods, [2]int{cpu, mib})
		}
		if n == 0 {
			continue
		}
		add(&out.in, name, n, func(p *corev1.Pod) {
			p.Labels = map[string]string{"app": name}
			p.Spec.Containers[0].Resources.Requests = list(map[string]string{"cpu": strconv.Itoa(cpu) + "m", "memory": strconv.Itoa(mib) + "Mi"})
			if class == 0 {
				p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
					MaxSkew: out.skew, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: how, LabelSelector: selector("app", name),
				}}
			}
		})
	}
	return out
}

// best is the least price of nodes for the pods, found by trying every zone for each of them, evenly where they spread if even is true.
func (z *zonal) best(even bool) float64 {
	zones := len(z.prices[0])
	least, in := math.Inf(1), make([]int, len(z.pods))
	for {
		counts := make([]int, zones)
		for _, zone := range in[:z.even] {
			counts[zone]++
		}
		if !even || max(counts[0], counts[1], counts[2])-min(counts[0], counts[1], counts[2]) <= int(z.skew) {
			sum := 0.0
			for zone := range zones {
				var pods [][2]int
				for i, at := range in {
					if at == zone {
						pods = append(pods, z.pods[i])
					}
				}
				prices := make([]float64, len(z.prices))
				for i := range prices {
					prices[i] = z.prices[i][zone]
				}
				sum += optimum(pods, z.sizes, prices)
			}
			least = min(least, sum)
		}
		i := 0
		for ; i < len(in) && in[i] == zones-1; i++ {
			in[i] = 0
		}
		if i == len(in) {
			return least
		}
		in[i]++
	}
}

// TestBoundOfSpreadZones compares the lower bound of pods that spread over zones with the best plan there is: it is below that, and above what the pods
// would cost in any zones.
func TestBoundOfSpreadZones(t *testing.T) {
	cases, above, sum := 0, 0, 0.0
	for seed := range uint64(80) {
		z := newZonal(t, seed, corev1.DoNotSchedule)
		best := z.best(true)
		if math.IsInf(best, 1) {
			continue // Some pod is too large for all types.
		}
		p := plan.Make(t.Context(), z.in)
		bound := plan.LowerBound(t.Context(), z.in, &p)
		if bound > best*(1+1e-9) || p.CostPerHour < best*(1-1e-9) {
			t.Errorf("seed %d: the bound is %.5f and the plan %.5f USD per hour, the best plan is %.5f", seed, bound, p.CostPerHour, best)
		}
		cases++
		sum += bound / best
		if bound > z.best(false)*(1+1e-9) {
			above++
		}
	}
	t.Logf("%d of %d bounds are above what the pods would cost in any zones, in the mean they are %.4f of the best plan", above, cases, sum/float64(cases))
	if cases < 50 || above*3 < cases || sum/float64(cases) < 0.9 {
		t.Errorf("%d of %d bounds are above what the pods would cost in any zones, in the mean they are %.4f of the best plan: want a third, and 0.9", above, cases, sum/float64(cases))
	}
}

// TestBoundOfKeptPreferences has the same spreads as preferences: the bound of what the plan keeps is below the best plan that keeps them, and the bound
// without preferences is below the best plan in any zones.
func TestBoundOfKeptPreferences(t *testing.T) {
	kept, above := 0, 0
	for seed := range uint64(80) {
		z := newZonal(t, seed, corev1.ScheduleAnyway)
		best := z.best(true)
		if math.IsInf(best, 1) {
			continue
		}
		p := plan.Make(t.Context(), z.in)
		if bound, free := plan.LowerBound(t.Context(), z.in, &p), z.best(false); bound > free*(1+1e-9) {
			t.Errorf("seed %d: the bound is %.5f USD per hour, the best plan without preferences %.5f", seed, bound, free)
		}
		if len(p.Ignored) > 0 {
			continue
		}
		kept++
		bound := plan.LowerBoundOfKept(t.Context(), z.in, &p)
		if bound > best*(1+1e-9) {
			t.Errorf("seed %d: the bound is %.5f USD per hour, the best plan that keeps the spread %.5f", seed, bound, best)
		}
		if bound > plan.LowerBound(t.Context(), z.in, &p)*(1+1e-9) {
			above++
		}
	}
	if kept < 30 || above*3 < kept {
		t.Errorf("%d plans keep the spread, %d of their bounds are above that without preferences", kept, above)
	}
}
