package plan

import "slices"

// What proving the lower bound may cost, and how close to the best content that is known it looks.
const (
	proofWork   = 3_000_000
	closeEnough = 0.001
)

// bound is a lower bound of what any set of nodes for n of each kind costs, from the values pi (Farley 1990): if the
// values are scaled down until no node holds more value than it costs, then the value of all kinds is a bound. What a
// node can hold is taken from a relaxation, and for the nodes that decide from a search that proves it; company rules
// count as the number per node alone. So the bound holds for every pi; good ones make it tight.
func (k *packer) bound(n []int, pi []float64) float64 {
	total := 0.0
	for _, ki := range k.all {
		total += float64(n[ki]) * pi[ki]
	}
	k.weigh(n, pi)
	ratio, level := make([]float64, len(k.lanes)), make([]int, len(k.lanes))
	for li := range k.lanes {
		k.moves = 2
		value := k.most(li, k.all, n, pi, 0)
		if value > 0 && k.lanes[li].price < 1e-6 {
			return 0
		}
		ratio[li] = perDollar(value, k.lanes[li].price)
	}
	// What is proven of each lane: a refined relaxation first, then an exhaustive search for more than the best known.
	top, until, known := 0, k.work+proofWork, 0.0
	for {
		for li := range ratio {
			if ratio[li] > ratio[top] {
				top = li
			}
		}
		price := k.lanes[top].price
		switch level[top]++; {
		case level[top] == 1:
			k.moves = 20
			ratio[top] = min(ratio[top], perDollar(k.most(top, k.all, n, pi, 0), price))
			continue
		case level[top] <= 4 && k.work < until && ratio[top] > known*(1+1e-9):
			width := []int{300, 1500, 6000}[level[top]-2]
			pat := k.best(top, k.all, n, pi, known*price)
			list := slices.Clone(k.wares(top, k.all, n, pi, k.weights(top)))
			pat.value = max(pat.value, known*price)
			k.beam(top, list, &pat)
			known = max(known, perDollar(pat.value, price))
			floor := known * price
			if level[top] > 2 {
				floor *= 1 + closeEnough
			}
			ratio[top] = min(ratio[top], perDollar(k.proven(top, list, floor, width), price))
			continue
		}
		break
	}
	if most := slices.Max(ratio); most > 0 {
		return total / most
	}
	return 0
}

// lowerBound is what the kinds cost at the very least; cost is what some plan costs.
func (k *packer) lowerBound(counts []int, pi []float64, cost float64) float64 {
	best := k.bound(counts, pi)
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
