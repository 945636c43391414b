package binpack

// proofTables is how many bin types are looked at as hard as possible for the bound.
const proofTables = 64

// boundOf returns the bound that values of the item types prove.
func boundOf(k *packer, values []float64) float64 {
	s := newPricer(k, stock{types: k.all, counts: k.p.counts(), values: values})
	s.weigh(s.at.counts, values)
	return s.prove()
}

// atLeast returns what the items cost at the very least: what was proven, or the one bin that takes the item that is hardest to
// place; cost is what some packing costs.
func atLeast(k *packer, proven, cost float64) float64 {
	best := proven
	for _, ti := range k.all {
		for bi := range k.bins { // sorted by price
			if k.types[ti].takes.Has(bi) {
				best = max(best, k.bins[bi].price)
				break
			}
		}
	}
	if best > cost && best < cost*(1+1e-9) {
		return cost // Equal but for rounding.
	}
	return best
}
