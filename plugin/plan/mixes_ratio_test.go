package plan_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// TestMixes holds the plans of the planner's goals to what they may cost, at a third of the pods or fewer, with what
// small batches lose by their last nodes added.
func TestMixes(t *testing.T) {
	for _, c := range []struct {
		name  string
		pods  int
		ratio float64
	}{
		{"forty-shapes", 1000, 1.04},
		{"memory-and-cpu", 700, 1.03},
		{"odd-sizes", 400, 1.08},
		{"small-200-shapes", 600, 1.01},
		{"daemonsets", 700, 1.1},
		{"2000-shapes", 300, 1.06},
		{"diverse-1000", 200, 1.1},
		{"everything", 200, 1.03},
		{"one-deployment", 12, 1.35},
		{"lone-pod", 1, 1.0001},
	} {
		t.Run(c.name, func(t *testing.T) {
			all := mixes()
			x := all[slices.IndexFunc(all, func(x mix) bool { return x.name == c.name })]
			in := x.input(t, c.pods, 1)
			in.Options.Budget = 0.25
			p := plan.Make(t.Context(), in)
			if len(p.Unplaced) > 0 {
				t.Errorf("%d classes are not placed", len(p.Unplaced))
			}
			check(t, in, p)
			if got := p.CostPerHour / plan.LowerBound(t.Context(), in, &p); got > c.ratio || got < 1-1e-9 {
				t.Errorf("the bill is %.4f USD per hour, %.4f times the lower bound, want at most %.4f", p.CostPerHour, got, c.ratio)
			}
		})
	}
}

// TestShuffledInput plans batches that come in another order, pods, types and all: the plan is the same, whether patterns price the
// pods or, where there are many shapes, rents do.
func TestShuffledInput(t *testing.T) {
	all := mixes()
	for name, n := range map[string]int{"forty-shapes-spot": 200, "small-200-shapes": 400, "diverse-1000": 60} {
		t.Run(name, func(t *testing.T) {
			x := all[slices.IndexFunc(all, func(x mix) bool { return x.name == name })]
			in := x.input(t, n, 3)
			in.Options.Budget = 0.1
			want := shape(in, plan.Make(t.Context(), in))
			other := reordered(x.input(t, n, 3), 1)
			other.Options.Budget = 0.1
			if diff := cmp.Diff(want, shape(other, plan.Make(t.Context(), other))); diff != "" {
				t.Errorf("the order of the input changes the plan:\n%s", diff)
			}
		})
	}
}

// TestBudget gives planning more work: the plan is never dearer.
func TestBudget(t *testing.T) {
	all := mixes()
	x := all[slices.IndexFunc(all, func(x mix) bool { return x.name == "memory-and-cpu" })]
	in := x.input(t, 40, 5)
	last := math.Inf(1)
	for _, budget := range []float64{1, 4} {
		in.Options.Budget = budget
		p := plan.Make(t.Context(), in)
		if p.CostPerHour > last+1e-9 {
			t.Errorf("budget %v: %.4f USD per hour, with less it was %.4f", budget, p.CostPerHour, last)
		}
		last = p.CostPerHour
	}
}

// TestNodeShare bounds what one node may hold.
func TestNodeShare(t *testing.T) {
	in := world(t, 200, poolYAML{Name: "default"})
	add(&in, "web", 40, func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = list(map[string]string{"cpu": "100m", "memory": "100Mi"})
	})
	in.Options.NodeShare = 0.25
	p := plan.Make(t.Context(), in)
	if len(p.Unplaced) > 0 {
		t.Fatalf("%d classes are not placed", len(p.Unplaced))
	}
	for _, c := range p.Claims {
		if n := pods(c); n > 10 {
			t.Errorf("%s holds %d of 40 pods, want a quarter at most", c.Name, n)
		}
	}
}

// TestSpotShare wants no more than half of a batch on spot instances of one type and zone where others cost little more.
func TestSpotShare(t *testing.T) {
	c := catalogYAML{Zones: []string{"us-east-1a", "us-east-1b"}, Pools: []poolYAML{{Name: "default"}}, Types: []string{
		"m7i.large amd64 2 8Gi spot=0.0300,0.0310", "m7a.large amd64 2 8Gi spot=0.0320,0.0500",
	}}
	for _, share := range []float64{0, 0.25, 1} {
		in := c.input(t)
		add(&in, "web", 8, func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = list(map[string]string{"cpu": "1500m", "memory": "1Gi"})
		})
		in.Options.SpotShare = share
		held := map[string]int{}
		p := plan.Make(t.Context(), in)
		for _, x := range p.Claims {
			held[x.Expected.InstanceType+" "+x.Expected.Zone] += pods(x)
		}
		most := 0
		for _, n := range held {
			most = max(most, n)
		}
		// A quarter is not to be had: there are three places for little more.
		if want := map[float64]int{0: 4, 0.25: 4, 1: 8}[share]; most != want {
			t.Errorf("share %v: %d pods on one type in one zone, want %d: %v", share, most, want, held)
		}
	}
}

func pods(c plan.Claim) int {
	n := 0
	for _, m := range c.Members {
		n += len(m.Pods)
	}
	return n
}

// TestBoundBelowOptimum compares the lower bound with the best plan there is, found by trying everything.
func TestBoundBelowOptimum(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 23))
		c := catalogYAML{Zones: []string{"us-east-1a"}, Pools: []poolYAML{{Name: "default"}}}
		var sizes [][2]int
		var prices []float64
		for i := range 2 + rng.IntN(3) {
			cpu, mib := 1000*(1+rng.IntN(8)), 1024*(1+rng.IntN(16))
			price := 0.01 * float64(1+rng.IntN(40))
			sizes, prices = append(sizes, [2]int{cpu, mib}), append(prices, price)
			c.Types = append(c.Types, fmt.Sprintf("m%d.large amd64 %dm %dMi od=%.2f", i, cpu, mib, price))
		}
		in := c.input(t)
		var each [][2]int
		for s := range 2 + rng.IntN(2) {
			cpu, mib := 100*(1+rng.IntN(30)), 128*(1+rng.IntN(30))
			n := 1 + rng.IntN(3)
			for range n {
				each = append(each, [2]int{cpu, mib})
			}
			add(&in, "app-"+strconv.Itoa(s), n, func(p *corev1.Pod) {
				p.Spec.Containers[0].Resources.Requests = list(map[string]string{"cpu": strconv.Itoa(cpu) + "m", "memory": strconv.Itoa(mib) + "Mi"})
			})
		}
		p := plan.Make(t.Context(), in)
		best := optimum(each, sizes, prices)
		if math.IsInf(best, 1) {
			continue // Some pod is too large for all types.
		}
		if bound := plan.LowerBound(t.Context(), in, &p); bound > best+1e-9 || p.CostPerHour < best-1e-9 {
			t.Errorf("seed %d: the bound is %.4f and the plan %.4f USD per hour, the best plan is %.4f", seed, bound, p.CostPerHour, best)
		}
		if p.CostPerHour > best*1.25 {
			t.Errorf("seed %d: the plan is %.4f USD per hour, the best one %.4f", seed, p.CostPerHour, best)
		}
	}
}

// optimum is the least price of nodes for the pods: over all subsets, what the cheapest node that holds the subset costs.
func optimum(pods, sizes [][2]int, prices []float64) float64 {
	alone := make([]float64, 1<<len(pods))
	best := make([]float64, 1<<len(pods))
	for set := range alone {
		cpu, mib := 0, 0
		for i, p := range pods {
			if set>>i&1 == 1 {
				cpu, mib = cpu+p[0], mib+p[1]
			}
		}
		alone[set] = math.Inf(1)
		for i, s := range sizes {
			if cpu <= s[0] && mib <= s[1] {
				alone[set] = min(alone[set], prices[i])
			}
		}
	}
	for set := 1; set < len(best); set++ {
		best[set] = math.Inf(1)
		for sub := set; sub > 0; sub = (sub - 1) & set {
			best[set] = min(best[set], alone[sub]+best[set&^sub])
		}
	}
	return best[len(best)-1]
}

// TestManyRefs keeps the names of pods unique whatever the classes.
func TestManyRefs(t *testing.T) {
	all := mixes()
	x := all[slices.IndexFunc(all, func(x mix) bool { return x.name == "apps-1000" })]
	in := x.input(t, 300, 2)
	in.Options.Budget = 0.1
	seen := map[catalog.PodRef]bool{}
	for _, c := range plan.Make(t.Context(), in).Claims {
		for _, m := range c.Members {
			for _, ref := range m.Pods {
				if seen[ref] {
					t.Errorf("%s is planned twice", ref.Name)
				}
				seen[ref] = true
			}
		}
	}
	if len(seen) != 300 {
		t.Errorf("%d pods are planned, want 300", len(seen))
	}
}

// TestLikeClaims plans nodes that differ in their pods alone: what their claims name is worked out once, not for each.
func TestLikeClaims(t *testing.T) {
	in := world(t, 100, poolYAML{Name: "default"})
	b := newBatch(&in, 1)
	for i := range 4 {
		b.add(6, 700, 1000+i, label("app", "one-per-host"), apart(selector("app", "one-per-host")))
	}
	in.Options.SpotShare = 1
	p := plan.Make(t.Context(), in)
	lists := map[*string]bool{}
	for i := range p.Claims {
		lists[&p.Claims[i].Alternatives[0]] = true
	}
	if len(p.Claims) != 24 || len(lists) != 1 {
		t.Errorf("%d claims have %d lists of alternatives, want 24 with one", len(p.Claims), len(lists))
	}
	p.Claims[0].Requirements[0].Key = "changed"
	if p.Claims[1].Requirements[0].Key == "changed" {
		t.Error("claims share their requirements, want lists of their own")
	}
}
