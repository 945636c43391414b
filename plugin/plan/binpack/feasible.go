package binpack

import "slices"

// feasibleSweeps is how often all bin types are looked at, hastily how often any content above its price will do, overdrawn
// from which value per dollar on values are lowered. A bin type below farFrom of that rests for napRounds.
const (
	feasibleSweeps = 40
	hastily        = 15
	overdrawn      = 1.002
	napRounds      = 4
	farFrom        = 0.97
)

// feasible lowers the values of item types that together make a bin worth more than it costs, until there is no such bin
// or for so many sweeps. Values of aggregated rows are not quite those of the item types in them; made feasible duals,
// they prove a higher bound.
func feasible(k *packer, counts []int, pi []float64, work int) []float64 {
	k.weigh(counts, pi)

	s := stock{types: k.all, counts: counts, values: pi}
	until := k.work.done + work
	nap := make([]int, len(k.bins))
	for sweep := range feasibleSweeps {
		e := thorough()
		if sweep < hastily {
			e = hasty()
		}
		found := false
		for bi := range k.bins {
			if !k.work.within(until) {
				return moreValued(k, counts, pi, divisible(k, counts))
			}
			if nap[bi] > sweep {
				continue
			}
			limit := k.bins[bi].price * overdrawn
			if v := k.upperBound(bi, s, limit, quickMoves); v <= limit {
				if v < limit*farFrom {
					nap[bi] = sweep + napRounds
				}
				continue
			}
			pat := k.best(bi, s, limit, e)
			if pat.value <= limit && !e.any {
				k.byDP(bi, k.byDensity(bi, s), dpLimits{floor: limit, cells: tableLimit}, func(items []Item) {
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
				pi[it.Type] *= 1 - 0.7*(1-k.bins[bi].price/pat.value)
			}
		}
		if !found {
			break
		}
	}
	return moreValued(k, counts, pi, divisible(k, counts))
}

// moreValued returns the values at which the counts are worth more: where the work did not suffice for the covering program,
// those by size may be.
func moreValued(k *packer, counts []int, a, b []float64) []float64 {
	more := 0.0
	for _, ti := range k.all {
		more += float64(counts[ti]) * (b[ti] - a[ti])
	}
	if more > 0 {
		return b
	}
	return a
}
