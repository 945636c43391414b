package binpack

import "slices"

// How often values are repaired, and from which value per dollar of a node on; lanes that are far from it are looked at
// now and then.
const (
	repairs   = 40
	hastily   = 15
	overdrawn = 1.002
	napRounds = 4
	farFrom   = 0.97
)

// repair lowers the values of kinds that together make a node worth more than it costs, since they come from rows of
// kinds that are not quite the same, until there is no such node or for so many sweeps. The values become those of the
// kinds themselves, and the lower bound that they prove higher.
func (k *packer) repair(counts []int, pi []float64) []float64 {
	k.weigh(counts, pi)

	nap := make([]int, len(k.lanes))
	for sweep := range repairs {
		k.hasty = sweep < hastily
		found := false
		for li := range k.lanes {
			if nap[li] > sweep {
				continue
			}
			limit := k.lanes[li].price * overdrawn
			k.moves = 3
			if v := k.most(li, k.all, counts, pi, limit); v <= limit {
				if v < limit*farFrom {
					nap[li] = sweep + napRounds
				}
				continue
			}
			pat := k.best(li, k.all, counts, pi, limit)
			if pat.value <= limit && !k.hasty {
				k.onGrid(li, k.wares(li, k.all, counts, pi, k.weights(li)), limit, gridLimit, func(items []Item) {
					if v := worth(items, pi); v > pat.value {
						pat.value, pat.items = v, slices.Clone(items)
					}
				})
			}
			if pat.value <= limit*(1+1e-9) {
				continue
			}
			found = true
			for _, it := range pat.items {
				pi[it.Type] *= 1 - 0.7*(1-k.lanes[li].price/pat.value)
			}
		}
		if !found {
			break
		}
	}
	k.hasty = false
	return k.dearer(counts, pi, k.fluid(counts))
}

// dearer is the values at which the counts are worth more. Where the work did not suffice for the covering program, that
// may be the fluid ones.
func (k *packer) dearer(counts []int, a, b []float64) []float64 {
	more := 0.0
	for _, ki := range k.all {
		more += float64(counts[ki]) * (b[ki] - a[ki])
	}
	if more > 0 {
		return b
	}
	return a
}
