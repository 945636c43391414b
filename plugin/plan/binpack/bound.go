package binpack

import "slices"

// proofGrids is how many lanes are looked at as hard as can be for the sake of the bound.
const proofGrids = 8

// note keeps the bound that the values at hand prove, if it is the best so far (Farley 1990): if the values are scaled down
// until no node holds more value than it costs, then the value of all kinds is a lower bound of what any set of nodes for
// them costs. What a node can hold is taken from a relaxation, or from a grid where that decides; company rules count as
// the number per node alone. So the bound holds for all values; good ones make it tight. It returns the lane that decides.
func (s *seeker) note() int {
	value, top := 0.0, 0
	for _, ki := range s.all {
		value += float64(s.counts[ki]) * s.at[ki]
	}
	for li, r := range s.ratio {
		if r > s.ratio[top] {
			top = li
		}
	}
	if s.ratio[top] <= 0 {
		return top
	}
	if bound := value / s.ratio[top]; bound > s.bound {
		s.bound = bound
		for _, ki := range s.all {
			s.steady[ki] = s.at[ki] / s.ratio[top]
		}
	}
	return top
}

// prove looks at all lanes, and at those that decide as hard as it can, for the best bound that the values at hand prove.
func (s *seeker) prove() {
	for li := range s.lanes {
		s.ratio[li], s.exact[li] = s.look(li, gridLimit)
	}
	for range proofGrids {
		top := s.note()
		if s.exact[top] {
			return
		}
		s.ratio[top], _ = s.look(top, proofLimit)
		s.exact[top] = true
	}
	s.note()
}

// boundOf is the bound that values of the kinds prove.
func (k *packer) boundOf(pi []float64) float64 {
	s := seeker{packer: k, counts: k.p.counts(), pi: pi, at: pi, steady: slices.Clone(pi), ratio: make([]float64, len(k.lanes)), exact: make([]bool, len(k.lanes))}
	s.weigh(s.counts, pi)
	s.prove()
	return s.bound
}

// lowerBound is what the kinds cost at the very least, from the bound of a covering program or of values of the kinds; cost
// is what some plan costs.
func (k *packer) lowerBound(proven, cost float64) float64 {
	best := proven
	// At least one node that takes the pod that is hardest to please.
	for _, ki := range k.all {
		for li := range k.lanes { // sorted by price
			if k.kinds[ki].takes.has(li) {
				best = max(best, k.lanes[li].price)
				break
			}
		}
	}
	if best > cost && best < cost*(1+1e-9) {
		return cost // Equal but for rounding.
	}
	return best
}
