package binpack

import "github.com/slipway-k8s/slipway/plugin/plan/bitset"

// divisible returns values of the item types by their size alone: the duals of the LP relaxation with divisible items,
// one for each eligibility class, found by a search along the axes. No bin then holds more value than it costs.
func divisible(k *packer, counts []int) []float64 {
	out := make([]float64, len(k.types))
	classes := eligibilityClasses(k)
	groups := map[int][]int{}
	most := 0
	for _, ti := range k.all {
		groups[classes[ti]] = append(groups[classes[ti]], ti)
		most = max(most, classes[ti])
	}
	for g := range most + 1 {
		members := groups[g]
		if len(members) == 0 {
			continue
		}
		total := make([]float64, k.p.dims)
		open := bitset.New(len(k.bins))
		for _, ti := range members {
			open.Union(k.types[ti].takes)
			for d, n := range k.types[ti].need {
				total[d] += float64(counts[ti]) * float64(n)
			}
		}
		w := divisiblePrices(k, total, open)
		for _, ti := range members {
			for d, n := range k.types[ti].need {
				out[ti] += w[d] * float64(n)
			}
		}
	}
	return out
}

// divisiblePrices returns the value of one of each dimension at which total is worth most and no open bin type more than
// its price.
func divisiblePrices(k *packer, total []float64, open bitset.Set) []float64 {
	at, try := make([]float64, len(total)), make([]float64, len(total))
	var bins []int
	for bi := range k.bins {
		if open.Has(bi) {
			bins = append(bins, bi)
		}
	}
	worth := func(w []float64) float64 {
		scale, sum := feasibleScale(k, w, bins), 0.0
		for d := range w {
			w[d] *= scale
			sum += w[d] * total[d]
		}
		k.work.add(len(bins))
		return sum
	}
	for d := range at {
		if total[d] > 0 {
			at[d] = 1 / total[d]
		}
	}
	best := worth(at)
	for _, factor := range []float64{8, 3, 1.5, 1.15, 1.05} {
		for range 2 {
			for d := range at {
				if total[d] == 0 {
					continue
				}
				for _, f := range [2]float64{factor, 1 / factor} {
					copy(try, at)
					try[d] *= f
					if v := worth(try); v > best {
						best = v
						copy(at, try)
					}
				}
			}
		}
	}
	return at
}

// feasibleScale returns by how much the values of one of each dimension may be multiplied until a bin holds more than
// its price; 0 where no bin has any of what they value.
func feasibleScale(k *packer, w []float64, bins []int) float64 {
	most := 0.0
	for _, bi := range bins {
		v := 0.0
		for d, n := range k.bins[bi].free {
			v += w[d] * float64(max(n, 0))
		}
		most = max(most, perDollar(v, k.bins[bi].price))
	}
	if most == 0 {
		return 0
	}
	return 1 / most
}

// sharePrices returns first values of the item types: what each costs as a share of the bin on which it is cheapest.
func sharePrices(k *packer) []float64 {
	out := make([]float64, len(k.types))
	for bi := range k.bins {
		b, held := &k.bins[bi], k.held(bi)
		for _, ti := range k.all {
			if held[ti] == 0 {
				continue
			}
			cost := charged(b.price) * max(share(k.types[ti].need, b.free), 1e-9)
			if out[ti] == 0 || cost < out[ti] {
				out[ti] = cost
			}
		}
	}
	return out
}
