package day

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
)

// few are a few nodes of two offerings each, over two hours, and commitments that pay for some of them.
func few(rng *rand.Rand) (*sameNodes, []commitment.Commitment) {
	out := &sameNodes{sunk: rng.Float64()}
	list := []commitment.Commitment{{Discount: 0.3}, {Kind: commitment.ReservedInstances}}[:1+rng.IntN(2)]
	for range list {
		out.given = append(out.given, []float64{0.3 + rng.Float64(), 0.3 + rng.Float64()})
	}
	for range 1 + rng.IntN(4) {
		first, last := rng.IntN(2), 1
		var n nodeChoice
		for range 2 {
			usd := 0.2 + rng.Float64()
			var l lifetime
			for hour := first; hour <= last; hour++ {
				one := hourOf{hour: hour, usd: usd * (0.3 + 0.7*float64(rng.IntN(2))), draws: make([]float64, len(list))}
				for i := range list {
					one.draws[i] = usd * 0.7 * float64(rng.IntN(3)) / 2
				}
				l = append(l, one)
			}
			n = append(n, l)
		}
		out.nodes = append(out.nodes, n)
	}
	return out, list
}

// whole returns what the cheapest solution without parts pays for the nodes from the n-th on, by trying everything.
func (s *sameNodes) whole(n int, left [][]float64) float64 {
	if n == len(s.nodes) {
		return s.sunk
	}
	best := math.Inf(1)
	var pay func(l lifetime, usd float64)
	pay = func(l lifetime, usd float64) {
		if len(l) == 0 {
			best = min(best, usd+s.whole(n+1, left))
			return
		}
		pay(l[1:], usd+l[0].usd)
		for i, draw := range l[0].draws {
			if draw > 0 && left[i][l[0].hour] >= draw {
				left[i][l[0].hour] -= draw
				pay(l[1:], usd)
				left[i][l[0].hour] += draw
			}
		}
	}
	for _, l := range s.nodes[n] {
		pay(l, 0)
	}
	return best
}

// What the linear program pays is no more than any choice of offerings and of what commitments pay for, and near the best one as far as whole nodes let
// it be.
func TestSameNodesBelowEveryChoice(t *testing.T) {
	sum, cases := 0.0, 0
	for seed := range uint64(200) {
		s, list := few(rand.New(rand.NewPCG(seed, 3)))
		best := s.whole(0, clone(s.given))
		got := s.least(best, list)
		if got > best*(1+1e-9) {
			t.Errorf("seed %d: the program pays %.6f, a choice of offerings %.6f", seed, got, best)
		}
		sum, cases = sum+got/best, cases+1
	}
	t.Logf("in the mean the program pays %.4f of the best choice of whole nodes", sum/float64(cases))
	if sum/float64(cases) < 0.9 {
		t.Errorf("in the mean the program pays %.4f of the best choice of whole nodes", sum/float64(cases))
	}
}

// Two nodes may be on spot or on demand, and a plan pays for one of them: it pays for the one that is more expensive on spot, and half of what is left.
func TestSameNodesPayWhereItSavesMost(t *testing.T) {
	node := func(spot, onDemand float64) nodeChoice {
		return nodeChoice{{{usd: spot, draws: []float64{onDemand * 0.7}}}}
	}
	s := &sameNodes{sunk: 0.1, given: [][]float64{{1.05}}, nodes: []nodeChoice{node(0.3, 1), node(0.5, 1)}}
	if got, want := s.least(0.9, []commitment.Commitment{{Discount: 0.3}}), 0.1+0.3/2; math.Abs(got-want) > 1e-4 {
		t.Errorf("the program pays %.5f, want %.5f", got, want)
	}
}
