package binpack

import (
	"math"
	"slices"
)

const (
	// maxAscent is the most rows that are priced by resources.
	maxAscent = 3000
	// manyRows is how many rows are aimed at where item types are more than maxAscent.
	manyRows = 300
	// fewAscent is how many rows patterns price well, whatever bins hold.
	fewAscent = 60
	// patternShare is what a packing by patterns may cost over its bound before resource prices are tried as well.
	patternShare = 0.01
)

// The schedule of the ascent: in so many rounds item types first spread over bin types that are a little more expensive, and at last
// keep to the cheapest. Every evaluateEvery rounds all bin types are looked at; every correctEvery rounds those are corrected that
// charge more than they hold.
const (
	ascentRounds  = 200
	proofRounds   = 300
	firstSpread   = 0.2
	lastSpread    = 0.003
	ascentStep    = 3.0
	evaluateEvery = 10
	correctEvery  = 20
	nearby        = 2.0
	// smallest is the least part of a bin's price that a dimension bears.
	smallest = 1e-4
	// correctedMost is the largest multiple of its price that a bin type may charge.
	correctedMost = 1.2
	// ascentSpeed is how many costs of an item type on a bin type are one step of work.
	ascentSpeed = 3
)

// dualAscent values items by resource prices: each bin type charges for one of each dimension, its price for all that a
// bin has, and an item type is worth what it costs where it costs least. Then no bin holds more value than it costs,
// even with divisible items. The prices at which the counts are worth most are the duals of a covering program with
// divisible items in each bin (LP relaxation). They are far from as good as duals over patterns where bins hold few
// items, as good where they hold many, and take no pattern to find: multiplicative updates raise the prices of what is overused.
// Where the best real content of a bin type is worth less than it charges, it may charge more.
type dualAscent struct {
	*packer
	counts []int
	// dims is how many dimensions there are.
	dims int
	// price is what all that a bin has is charged at, part the share of it that each dimension bears, by bin type and
	// dimension; rate is the charge for one of a dimension.
	price, part, rate []float64
	// active are the bin types that some item type uses.
	active []int
	// pi are the values of the item types.
	pi []float64
	// scratch: what the item types use of the active bin types, by bin type and dimension; what an item costs on each
	// active one.
	use, costs []float64
}

// resourcePrices returns the best resource prices that at most so much work finds.
func resourcePrices(k *packer, g goal, work int) *dualAscent {
	s := newDualAscent(k, k.p.counts())
	until := k.work.done + work
	rounds := ascentRounds
	if g.proof {
		rounds = proofRounds
	}
	best, bestPi, bestRate := 0.0, slices.Clone(s.pi), slices.Clone(s.rate)
	for i := range rounds + 1 {
		spread := firstSpread * math.Pow(lastSpread/firstSpread, float64(i)/float64(rounds))
		if i%evaluateEvery == 0 || i == rounds {
			worth := s.evaluate(spread)
			if worth > best {
				best = worth
				copy(bestPi, s.pi)
				copy(bestRate, s.rate)
			}
			if i == rounds || k.work.done > until || k.work.spent() {
				break
			}
		}
		if i > rounds/3 && i%correctEvery == 0 {
			s.correct()
			best = 0
		}
		s.round(spread)
	}
	s.pi, s.rate = bestPi, bestRate
	return s
}

// newDualAscent starts from the values of the LP relaxation with divisible items.
func newDualAscent(k *packer, counts []int) *dualAscent {
	d := k.p.dims
	n := len(k.bins) * d
	s := &dualAscent{
		packer: k, counts: counts, dims: d, price: make([]float64, len(k.bins)), part: make([]float64, n), rate: make([]float64, n),
		pi: make([]float64, len(k.types)), use: make([]float64, n), costs: make([]float64, len(k.bins)),
	}
	k.weigh(counts, divisible(k, counts))
	for bi := range k.bins {
		s.price[bi] = charged(k.bins[bi].price)
		part := s.part[bi*d : bi*d+d]
		for i, x := range k.bins[bi].free {
			part[i] = k.scale[i] * float64(max(x, 0))
		}
		normalize(part)
		for i, x := range k.bins[bi].free {
			if x > 0 {
				part[i] = max(part[i], 0.05)
			}
		}
		normalize(part)
		s.setRates(bi)
	}
	return s
}

// setRates sets the rates of a bin type from its price and parts.
func (s *dualAscent) setRates(bi int) {
	for i, x := range s.bins[bi].free {
		s.rate[bi*s.dims+i] = s.price[bi] * s.part[bi*s.dims+i] / float64(max(x, 1))
	}
}

// cost returns what one of the need costs on the bin type.
func (s *dualAscent) cost(bi int, need Vec) float64 {
	sum := 0.0
	for i, x := range s.rate[bi*s.dims : bi*s.dims+s.dims] {
		sum += x * float64(need[i])
	}
	return sum
}

// evaluate finds the values over all bin types, the active bin types at the spread, and what the counts are worth.
func (s *dualAscent) evaluate(spread float64) float64 {
	for _, ti := range s.all {
		s.pi[ti] = math.Inf(1)
	}
	least := make([]float64, len(s.types))
	for pass := range 2 {
		s.active = s.active[:0]
		for bi := range s.bins {
			held, on := s.held(bi), false
			for _, ti := range s.all {
				if held[ti] == 0 {
					continue
				}
				c := s.cost(bi, s.types[ti].need)
				if pass == 0 {
					s.pi[ti] = min(s.pi[ti], c)
				} else if c <= least[ti] {
					on = true
					break
				}
			}
			if on {
				s.active = append(s.active, bi)
			}
		}
		for _, ti := range s.all {
			least[ti] = s.pi[ti] * (1 + nearby*spread)
		}
	}
	s.work.add(len(s.bins) * len(s.all) / ascentSpeed)
	sum := 0.0
	for _, ti := range s.all {
		if math.IsInf(s.pi[ti], 1) {
			s.pi[ti] = 0 // No bin takes it.
		}
		sum += s.pi[ti] * float64(s.counts[ti])
	}
	return sum
}

// round spreads the item types over the active bin types, the cheaper the more, and raises the part of the dimensions
// that are used more than the others of a bin type.
func (s *dualAscent) round(spread float64) {
	clear(s.use)
	for _, ti := range s.all {
		s.assign(ti, spread)
	}
	s.work.add(len(s.active) * len(s.all) / ascentSpeed)
	for _, bi := range s.active {
		use, part, mean := s.use[bi*s.dims:(bi+1)*s.dims], s.part[bi*s.dims:(bi+1)*s.dims], 0.0
		for i, x := range s.bins[bi].free {
			use[i] /= float64(max(x, 1))
			mean += part[i] * use[i]
		}
		if mean <= 0 {
			continue
		}
		for i, x := range s.bins[bi].free {
			if x > 0 {
				part[i] = max(part[i], smallest) * math.Exp(ascentStep*spread*min(use[i]/mean-1, 1))
			}
		}
		normalize(part)
		s.setRates(bi)
	}
}

// assign spreads one item type over the active bin types.
func (s *dualAscent) assign(ti int, spread float64) {
	t, least := &s.types[ti], math.Inf(1)
	for j, bi := range s.active {
		s.costs[j] = math.Inf(1)
		if s.holds[bi][ti] > 0 {
			s.costs[j] = s.cost(bi, t.need)
			least = min(least, s.costs[j])
		}
	}
	if math.IsInf(least, 1) || least <= 0 {
		return
	}
	sum := 0.0
	for j := range s.active {
		// Beyond this a share is next to nothing.
		if over := (s.costs[j]/least - 1) / spread; over < 12 {
			s.costs[j] = math.Exp(-over)
			sum += s.costs[j]
		} else {
			s.costs[j] = 0
		}
	}
	for j, bi := range s.active {
		if s.costs[j] == 0 {
			continue
		}
		n := s.costs[j] / sum * float64(s.counts[ti])
		for i, x := range t.need {
			s.use[bi*s.dims+i] += n * float64(x)
		}
	}
}

// correct lets those active bin types charge more that hold less than they charge for, and less that hold more.
func (s *dualAscent) correct() {
	s.weigh(s.counts, s.pi)
	for _, bi := range s.active {
		price := s.bins[bi].price
		if price <= 0 {
			continue
		}
		s.by[bi] = nil
		at := stock{types: s.all, counts: s.counts, values: s.pi}
		most := s.upperBound(bi, at, price*0.9, tightMoves)
		if tight, ok := s.boundByDP(bi, s.byDensity(bi, at), price*0.9, coarseLimit); ok {
			most = min(most, tight)
		}
		s.price[bi] = max(price, min(s.price[bi]*price/max(most, price/2), price*correctedMost))
		s.setRates(bi)
	}
}
