package binpack

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
		total := make([]float64, k.p.dims)
		open := newSet(len(k.lanes))
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
func (k *packer) fluidWeights(total []float64, open Set) []float64 {
	at, try := make([]float64, len(total)), make([]float64, len(total))
	var lanes []int
	for li := range k.lanes {
		if open.has(li) {
			lanes = append(lanes, li)
		}
	}
	worth := func(w []float64) float64 {
		scale, sum := k.affordableAt(w, lanes), 0.0
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

// affordableAt is by how much the values of one of each dimension may be raised until a lane holds more than its price; 0 where no lane
// has any of what they value.
func (k *packer) affordableAt(w []float64, lanes []int) float64 {
	most := 0.0
	for _, li := range lanes {
		v := 0.0
		for d, n := range k.lanes[li].free {
			v += w[d] * float64(max(n, 0))
		}
		most = max(most, perDollar(v, k.lanes[li].price))
	}
	if most == 0 {
		return 0
	}
	return 1 / most
}
