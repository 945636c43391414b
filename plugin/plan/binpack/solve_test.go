package binpack_test

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/slipway-k8s/slipway/internal/cputime"
	"github.com/slipway-k8s/slipway/plugin/plan/binpack"
	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
	"github.com/slipway-k8s/slipway/plugin/plan/budget"
)

// instance is a problem of so many item types of count items each, over so many candidates none of which dominates another one,
// with an own eligibility class for every item type where classes is set.
func instance(types, count, bins int, classes bool) *binpack.Problem {
	rng := rand.New(rand.NewPCG(1, uint64(types)))
	p := &binpack.Problem{Room: [][]int64{nil}}
	for i := range bins {
		cpu, memory := int64(2000+48*rng.IntN(2000)), int64(4096+192*rng.IntN(2000))
		p.Bins = append(p.Bins, binpack.Bin{Group: i, Price: float64(cpu)*2e-5 + float64(memory)*3e-6 + rng.Float64()*1e-2, Free: binpack.Vec{110, cpu, memory}})
	}
	for range types {
		fits := bitset.New(bins)
		need := binpack.Vec{1, int64(100 + 10*rng.IntN(141)), int64(100 + rng.IntN(3997))}
		for bi, b := range p.Bins {
			if b.Free[1] >= need[1] && b.Free[2] >= need[2] && (!classes || rng.IntN(2) == 0) {
				fits[bi>>6] |= 1 << (bi & 63)
			}
		}
		p.Items = append(p.Items, binpack.ItemType{Need: need, Count: count, Pods: 1, Fits: fits})
	}
	return p
}

// check fails the test where a box holds more than its bin has or what does not fit it, or items are lost.
func check(t *testing.T, p *binpack.Problem, r binpack.Result) {
	t.Helper()
	left := slices.Clone(r.Left)
	for _, b := range r.Boxes {
		sum := make(binpack.Vec, len(p.Bins[b.Bin].Free))
		for _, it := range b.Items {
			left[it.Type] += it.N
			if p.Items[it.Type].Fits[b.Bin>>6]&(1<<(b.Bin&63)) == 0 {
				t.Errorf("item type %d is in bin %d, which it does not fit", it.Type, b.Bin)
			}
			for d, n := range p.Items[it.Type].Need {
				sum[d] += int64(it.N) * n
			}
		}
		for d, n := range sum {
			if n > p.Bins[b.Bin].Free[d] {
				t.Errorf("a box of bin %d holds %d of dimension %d, it has %d", b.Bin, n, d, p.Bins[b.Bin].Free[d])
			}
		}
	}
	for ti, n := range left {
		if n != p.Items[ti].Count {
			t.Errorf("item type %d: %d packed or left, want %d", ti, n, p.Items[ti].Count)
		}
	}
}

func bill(p *binpack.Problem, r binpack.Result) float64 {
	sum := 0.0
	for _, b := range r.Boxes {
		sum += p.Bins[b.Bin].Price
	}
	return sum
}

// Without any budget the answer is the first fit, and each larger budget gives a valid packing that is not dearer than that.
func TestAnyBudgetGivesAPacking(t *testing.T) {
	for name, p := range map[string]*binpack.Problem{"patterns": instance(30, 10, 100, false), "resource prices": instance(300, 2, 100, false)} {
		t.Run(name, func(t *testing.T) {
			for units := 0; units < 40_000_000; units = 4*units + 1000 {
				r := binpack.Solve(p, binpack.Options{Efforts: []float64{1}, Bound: true, Budget: budget.New(t.Context(), units)})
				check(t, p, r)
				cost := bill(p, r)
				if units == 0 && math.Abs(cost-r.FirstFit) > 1e-9 {
					t.Errorf("the bill without a budget is %f, that of first fit %f", cost, r.FirstFit)
				}
				if slices.Max(r.Left) > 0 || cost > r.FirstFit*(1+1e-9) || r.Bound > cost*(1+1e-9) {
					t.Errorf("%d units: bill %f, bound %f, first fit %f, left %v", units, cost, r.Bound, r.FirstFit, r.Left)
				}
			}
		})
	}
}

// A sketch has no first fit to fall back on: it is made when the budget ends too early.
func TestSpentSketchPacksAll(t *testing.T) {
	p := instance(30, 10, 100, false)
	for units := 0; units < 1_000_000; units = 4*units + 1000 {
		r := binpack.Solve(p, binpack.Options{Efforts: []float64{0.25}, Sketch: true, Budget: budget.New(t.Context(), units)})
		check(t, p, r)
		if slices.Max(r.Left) > 0 {
			t.Errorf("%d units leave %v", units, r.Left)
		}
	}
}

// A bound that a budget cut short is still a bound.
func TestAnyBudgetGivesABound(t *testing.T) {
	p := instance(40, 5, 60, false)
	best := bill(p, binpack.Solve(p, binpack.Options{Efforts: []float64{1}}))
	for units := 0; units < 40_000_000; units = 4*units + 1000 {
		if b := binpack.LowerBound(p, binpack.Known{Cost: best}, budget.New(t.Context(), units)); b > best*(1+1e-9) {
			t.Errorf("%d units prove %f, a packing costs %f", units, b, best)
		}
	}
}

// Work ends soon after the context does: measured against the time that all of it takes.
func TestCancel(t *testing.T) {
	p := instance(1000, 5, 1000, false)
	began := cputime.Used()
	binpack.Solve(p, binpack.Options{Efforts: []float64{1}, Bound: true})
	whole := cputime.Used() - began
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	began = cputime.Used()
	binpack.Solve(p, binpack.Options{Efforts: []float64{1}, Bound: true, Budget: budget.New(ctx, 1<<40)})
	if after := cputime.Used() - began; after > whole/4 {
		t.Errorf("a cancelled packing took %s, a whole one takes %s", after, whole)
	}
}

// BenchmarkFirstFit packs 10,000 items without any budget: what is done for any input before anything is improved.
func BenchmarkFirstFit(b *testing.B) {
	for name, p := range map[string]*binpack.Problem{
		"2000types-3000bins":          instance(2000, 5, 3000, false),
		"10000types-3000bins":         instance(10000, 1, 3000, false),
		"2000types-3000bins-classes":  instance(2000, 5, 3000, true),
		"10000types-1000bins-classes": instance(10000, 1, 1000, true),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				binpack.Solve(p, binpack.Options{Budget: budget.New(b.Context(), 0)})
			}
		})
	}
}
