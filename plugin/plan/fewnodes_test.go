package plan_test

import (
	"context"
	"maps"
	"math"
	"math/bits"
	"math/rand/v2"
	"testing"

	"github.com/slipway-k8s/slipway/plugin/plan"
)

// nodeShares are what a node is charged for each node, as shares of what a node of the plan costs, to find out how few nodes there can be.
func nodeShares() []float64 { return []float64{1. / 16, 1. / 8, 1. / 6, 1. / 4, 1. / 2, 1, 4} }

// fewestNodes returns how many nodes there are at least if they cost no more than most, in USD per hour. If each node is charged x more, all nodes together
// cost their bound at that price at least, so that n nodes which cost no more than most have most + n x >= bound (Lagrangian relaxation). The best of
// some x counts.
func fewestNodes(ctx context.Context, in plan.Input, p *plan.Plan, most float64) int {
	best := 0
	for _, share := range nodeShares() {
		x := share * p.CostPerHour / float64(max(len(p.Claims), 1))
		in.Catalog.NodePools = maps.Clone(in.Catalog.NodePools)
		pool := in.Catalog.NodePools["default"]
		pool.NodeCost = x
		in.Catalog.NodePools["default"] = pool
		charged := plan.Make(ctx, in)
		best = max(best, int(math.Ceil((plan.LowerBound(ctx, in, &charged)-most)/x-1e-6)))
	}
	return best
}

// TestFewestNodes compares that with the fewest nodes there can be, found by trying everything.
func TestFewestNodes(t *testing.T) {
	cases, tight := 0, 0
	for seed := range uint64(60) {
		z := newZonal(t, seed, "")
		rng := rand.New(rand.NewPCG(seed, 31))
		for i := range z.in.Classes {
			z.in.Classes[i].Pod.Spec.TopologySpreadConstraints = nil
		}
		cheapest := make([]float64, len(z.sizes))
		for i, prices := range z.prices {
			cheapest[i] = min(prices[0], prices[1], prices[2])
		}
		byCount := nodeCounts(z.pods, z.sizes, cheapest)
		p := plan.Make(t.Context(), z.in)
		if len(p.Unplaced) > 0 {
			continue
		}
		most := p.CostPerHour * (1 + 0.5*rng.Float64())
		want := 1
		for byCount[want] > most*(1+1e-9) {
			want++
		}
		got := fewestNodes(t.Context(), z.in, &p, most)
		if got > want {
			t.Errorf("seed %d: %d nodes at least for %.4f USD per hour, and there are %d that cost %.4f", seed, got, most, want, byCount[want])
		}
		cases++
		if got == want {
			tight++
		}
	}
	t.Logf("%d of %d are tight", tight, cases)
	if cases < 40 || tight*4 < cases {
		t.Errorf("%d of %d are tight", tight, cases)
	}
}

// nodeCounts returns the least price of so many nodes for the pods, by their number.
func nodeCounts(pods, sizes [][2]int, prices []float64) []float64 {
	all := 1<<len(pods) - 1
	best := make([][]float64, len(pods)+1)
	for n := range best {
		best[n] = make([]float64, all+1)
		for set := range best[n] {
			best[n][set] = math.Inf(1)
		}
	}
	best[0][0] = 0
	alone := make([]float64, all+1)
	for set := 1; set <= all; set++ {
		var on [][2]int
		for rest := set; rest > 0; rest &= rest - 1 {
			on = append(on, pods[bits.TrailingZeros(uint(rest))])
		}
		alone[set] = oneNode(on, sizes, prices)
	}
	out := make([]float64, len(pods)+1)
	for n := 1; n <= len(pods); n++ {
		for set := 1; set <= all; set++ {
			for sub := set; sub > 0; sub = (sub - 1) & set {
				best[n][set] = min(best[n][set], alone[sub]+best[n-1][set&^sub])
			}
		}
		out[n] = best[n][all]
	}
	out[0] = math.Inf(1)
	return out
}

// oneNode returns the price of the cheapest node that holds all the pods; infinite for none.
func oneNode(pods, sizes [][2]int, prices []float64) float64 {
	cpu, mib, least := 0, 0, math.Inf(1)
	for _, p := range pods {
		cpu, mib = cpu+p[0], mib+p[1]
	}
	for i, s := range sizes {
		if cpu <= s[0] && mib <= s[1] {
			least = min(least, prices[i])
		}
	}
	return least
}
