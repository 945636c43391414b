package plan

import (
	"cmp"
	"slices"

	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
)

// sizes finds the offers whose nodes are large enough for a need, without a look at each offer.
type sizes struct {
	offers []offer
	// steps are the amounts of a dimension that offers have free, ascending; nil for a dimension that nothing has needed yet.
	steps [][]sizeStep
}

// sizeStep is the offers that have at least so much free of a dimension.
type sizeStep struct {
	free   int64
	offers bitset.Set
}

// newSizes returns the sizes of the offers, whose free resources must not change any more.
func newSizes(offers []offer, dims int) *sizes {
	return &sizes{offers: offers, steps: make([][]sizeStep, dims)}
}

// keep removes from the set the offers whose nodes do not hold the need when they are empty.
func (s *sizes) keep(set bitset.Set, need vec) {
	for d, n := range need {
		if n <= 0 {
			continue
		}
		steps := s.stepsOf(d)
		at, _ := slices.BinarySearchFunc(steps, n, func(x sizeStep, n int64) int { return cmp.Compare(x.free, n) })
		if at == len(steps) {
			clear(set)
			return
		}
		set.Intersect(steps[at].offers)
	}
}

// stepsOf returns the steps of the dimension.
func (s *sizes) stepsOf(d int) []sizeStep {
	if s.steps[d] != nil || len(s.offers) == 0 {
		return s.steps[d]
	}
	order := make([]int, len(s.offers))
	for oi := range order {
		order[oi] = oi
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(s.offers[b].free[d], s.offers[a].free[d]) })
	set := bitset.New(len(s.offers))
	var steps []sizeStep
	for i, oi := range order {
		set.Add(oi)
		if free := s.offers[oi].free[d]; i+1 == len(order) || s.offers[order[i+1]].free[d] < free {
			steps = append(steps, sizeStep{free, set.Clone()})
		}
	}
	slices.Reverse(steps)
	s.steps[d] = steps
	return steps
}
