package binpack_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/slipway-k8s/slipway/plugin/plan/binpack"
	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
)

// small is a problem of at most nine items of sizes that have no common step, a third of which keep to a bin of their own kind alone.
func small(rng *rand.Rand) *binpack.Problem {
	p := &binpack.Problem{Room: [][]int64{nil}, Caps: []binpack.Cap{{Limit: 1}}}
	for i := range 2 + rng.IntN(4) {
		size := int64(1 + rng.IntN(8))
		p.Bins = append(p.Bins, binpack.Bin{
			Group: i, Price: 0.01 + float64(size)*(0.03+0.02*rng.Float64()),
			Free: binpack.Vec{8, size*1000 - rng.Int64N(300), size<<32 - rng.Int64N(1<<31)},
		})
	}
	for range 2 + rng.IntN(3) {
		t := binpack.ItemType{
			Need: binpack.Vec{1, 1 + rng.Int64N(1500), 1 + rng.Int64N(6<<30)}, Count: 1 + rng.IntN(3), Pods: 1, Fits: bitset.New(len(p.Bins)),
		}
		for bi := range p.Bins {
			if b := &p.Bins[bi]; b.Free[1] >= t.Need[1] && b.Free[2] >= t.Need[2] && rng.IntN(5) > 0 {
				t.Fits.Add(bi)
			}
		}
		if rng.IntN(3) == 0 {
			t.Memberships = []binpack.Membership{{Cap: 0, Weight: 1, Subject: true}}
		}
		p.Items = append(p.Items, t)
	}
	return p
}

// optimum is the least that bins for all items cost: over all subsets, what the cheapest bin that holds the subset costs.
func optimum(p *binpack.Problem) float64 {
	var items []int
	for ti, t := range p.Items {
		for range t.Count {
			items = append(items, ti)
		}
	}
	best := make([]float64, 1<<len(items))
	alone := make([]float64, len(best))
	for set := 1; set < len(best); set++ {
		alone[set], best[set] = cheapest(p, items, set), math.Inf(1)
		for sub := set; sub > 0; sub = (sub - 1) & set {
			best[set] = min(best[set], alone[sub]+best[set&^sub])
		}
	}
	return best[len(best)-1]
}

// cheapest is what the cheapest bin costs that holds all items of the set.
func cheapest(p *binpack.Problem, items []int, set int) float64 {
	least := math.Inf(1)
	for bi, b := range p.Bins {
		sum, alone, ok := make(binpack.Vec, len(b.Free)), 0, true
		for i, ti := range items {
			if set>>i&1 == 0 {
				continue
			}
			ok = ok && p.Items[ti].Fits.Has(bi)
			alone += len(p.Items[ti].Memberships)
			for d, n := range p.Items[ti].Need {
				sum[d] += n
			}
		}
		for d, n := range b.Free {
			ok = ok && sum[d] <= n
		}
		if ok && alone <= 1 {
			least = min(least, b.Price)
		}
	}
	return least
}

// TestBoundsOfFewBins compares bounds with the best packing there is, found by trying everything. Where few bins are bought, whole ones count:
// most bounds are what that packing costs.
func TestBoundsOfFewBins(t *testing.T) {
	cases, tight, sum := 0, 0, 0.0
	for seed := range uint64(150) {
		p := small(rand.New(rand.NewPCG(seed, 5)))
		best := optimum(p)
		if math.IsInf(best, 1) {
			continue // Some item fits no bin.
		}
		r := binpack.Solve(p, binpack.Options{Efforts: []float64{1}, Bound: true})
		check(t, p, r)
		bound := binpack.LowerBound(p, binpack.Known{Bound: r.Bound, Values: r.Values, Cost: bill(p, r)}, nil)
		unknown := binpack.LowerBound(p, binpack.Known{Cost: bill(p, r)}, nil)
		for name, b := range map[string]float64{"of the packing": r.Bound, "from its values": bound, "from nothing": unknown} {
			if b > best*(1+1e-9) {
				t.Errorf("seed %d: the bound %s is %.6f, the best packing costs %.6f", seed, name, b, best)
			}
		}
		if cost := bill(p, r); cost < best*(1-1e-9) {
			t.Errorf("seed %d: the packing costs %.6f, the best one %.6f", seed, cost, best)
		}
		cases++
		sum += bound / best
		if bound >= best*(1-1e-6) {
			tight++
		}
	}
	t.Logf("%d of %d bounds are tight, in the mean they are %.4f of the optimum", tight, cases, sum/float64(cases))
	if cases < 120 || tight*2 < cases || sum/float64(cases) < 0.95 {
		t.Errorf("%d of %d bounds are tight, in the mean they are %.4f of the optimum, want half and 0.95", tight, cases, sum/float64(cases))
	}
}
