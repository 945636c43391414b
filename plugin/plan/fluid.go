package plan

import (
	"math"
)

// fluid prices the kinds by their size alone: what one of each dimension is worth if pods could be cut at will, for the
// kinds that the same lanes are open to. No lane then holds more value than it costs; the prices are those at which the
// counts are worth most (the dual of the fluid covering program), found by a search along the axes.
func (k *packer) fluid(counts []int) []float64 {
	out := make([]float64, len(k.kinds))
	doors := k.doors()
	groups := map[int][]int{}
	most := 0
	for _, ki := range k.all {
		groups[doors[ki]] = append(groups[doors[ki]], ki)
		most = max(most, doors[ki])
	}
	for g := range most + 1 {
		members := groups[g]
		if len(members) == 0 {
			continue
		}
		total := make([]float64, len(k.p.asked))
		open := newBits(len(k.lanes))
		for _, ki := range members {
			open.or(k.kinds[ki].takes)
			for d, n := range k.kinds[ki].need {
				total[d] += float64(counts[ki]) * float64(n)
			}
		}
		w := k.fluidWeights(total, open)
		for _, ki := range members {
			for d, n := range k.kinds[ki].need {
				out[ki] += w[d] * float64(n)
			}
		}
	}
	return out
}

// fluidWeights is the value of one of each dimension at which total is worth most and no open lane more than its price.
func (k *packer) fluidWeights(total []float64, open bits) []float64 {
	at, try := make([]float64, len(total)), make([]float64, len(total))
	var lanes []int
	for li := range k.lanes {
		if open.has(li) {
			lanes = append(lanes, li)
		}
	}
	worth := func(w []float64) float64 {
		scale := math.Inf(1)
		for _, li := range lanes {
			v := 0.0
			for d, n := range k.lanes[li].free {
				v += w[d] * float64(max(n, 0))
			}
			if v > 0 {
				scale = min(scale, max(k.lanes[li].price, 1e-6)/v)
			}
		}
		sum := 0.0
		if math.IsInf(scale, 1) {
			scale = 0 // No lane has any of it.
		}
		for d := range w {
			w[d] *= scale
			sum += w[d] * total[d]
		}
		k.work += len(lanes)
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
