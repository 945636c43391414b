package binpack

import (
	"math"
	"slices"
)

const (
	// maxRented is the most rows that rents price.
	maxRented = 3000
	// fewRented is how many rows patterns price well, whatever nodes hold.
	fewRented = 60
	// patternShare is what a plan by patterns may cost over its bound before rents are tried as well.
	patternShare = 0.01
)

// How rents are found: in so many rounds, in which the kinds first spread over lanes that are not much dearer and last keep
// to the cheapest; every so many rounds all lanes are looked at, and those are corrected that are taken for more than they
// hold.
const (
	rentRounds  = 200
	proofRounds = 300
	firstSpread = 0.2
	lastSpread  = 0.003
	rentStep    = 3.0
	lookEvery   = 10
	rightEvery  = 20
	nearby      = 2.0
	// smallest is the least part of a lane's price that a dimension bears.
	smallest = 1e-4
	// rightedMost is how much more than its price a lane may charge.
	rightedMost = 1.2
	// rentSpeed is how many rents of a kind are one step of work.
	rentSpeed = 3
)

// rents are what the lanes charge for one of each dimension, their price for all that a node has. A kind is worth what it
// pays where it pays least; so no node that is filled holds more value than it costs, even if pods could be cut at will.
// The rents at which the counts are worth most are the duals of a covering program with such nodes: far from as good as
// that with real patterns where nodes hold few pods, as good where they hold many, and found without any pattern. Where
// the best real content of a lane's node is worth less than the node charges, the lane may charge more.
type rents struct {
	*packer
	counts []int
	// dims is how many dimensions there are.
	dims int
	// price is what all that a node of each lane has costs, part the share of it that each dimension bears, by lane and
	// dimension; rate is what one of a dimension costs.
	price, part, rate []float64
	// near are the lanes in use.
	near []int
	// pi are the values of the kinds.
	pi []float64
	// scratch: what the kinds use of the near lanes, by lane and dimension; what a kind pays on each of the near ones.
	use, pays []float64
}

// rent is the values of the kinds by rents, at most what so much work permits.
func (k *packer) rent(counts []int, budget int) []float64 {
	s := k.newRents(counts)
	until := k.work + budget
	rounds := rentRounds
	if k.proof {
		rounds = proofRounds
	}
	best, bestPi := 0.0, slices.Clone(s.pi)
	for i := range rounds + 1 {
		spread := firstSpread * math.Pow(lastSpread/firstSpread, float64(i)/float64(rounds))
		if i%lookEvery == 0 || i == rounds {
			worth := s.look(spread)
			if worth > best {
				best = worth
				copy(bestPi, s.pi)
			}
			if i == rounds || k.work > until {
				break
			}
		}
		if i > rounds/3 && i%rightEvery == 0 {
			s.right()
			best = 0
		}
		s.round(spread)
	}
	return bestPi
}

// newRents starts from the fluid values.
func (k *packer) newRents(counts []int) *rents {
	d := k.p.dims
	n := len(k.lanes) * d
	s := &rents{
		packer: k, counts: counts, dims: d, price: make([]float64, len(k.lanes)), part: make([]float64, n), rate: make([]float64, n),
		pi: make([]float64, len(k.kinds)), use: make([]float64, n), pays: make([]float64, len(k.lanes)),
	}
	k.weigh(counts, k.fluid(counts))
	for li := range k.lanes {
		s.price[li] = charged(k.lanes[li].price)
		part := s.part[li*d : li*d+d]
		for i, x := range k.lanes[li].free {
			part[i] = k.scale[i] * float64(max(x, 0))
		}
		even(part)
		for i, x := range k.lanes[li].free {
			if x > 0 {
				part[i] = max(part[i], 0.05)
			}
		}
		even(part)
		s.charge(li)
	}
	return s
}

// even scales the parts to 1 together.
func even(part []float64) {
	sum := 0.0
	for _, x := range part {
		sum += x
	}
	for i := range part {
		if sum > 0 {
			part[i] /= sum
		}
	}
}

// charge sets the rates of the lane.
func (s *rents) charge(li int) {
	for i, x := range s.lanes[li].free {
		s.rate[li*s.dims+i] = s.price[li] * s.part[li*s.dims+i] / float64(max(x, 1))
	}
}

// pay is what one of the need costs on the lane.
func (s *rents) pay(li int, need Vec) float64 {
	sum := 0.0
	for i, x := range s.rate[li*s.dims : li*s.dims+s.dims] {
		sum += x * float64(need[i])
	}
	return sum
}

// look finds the values by all lanes, those that matter at the spread, and what the counts are worth.
func (s *rents) look(spread float64) float64 {
	for _, ki := range s.all {
		s.pi[ki] = math.Inf(1)
	}
	least := make([]float64, len(s.kinds))
	for pass := range 2 {
		s.near = s.near[:0]
		for li := range s.lanes {
			held, on := s.held(li), false
			for _, ki := range s.all {
				if held[ki] == 0 {
					continue
				}
				c := s.pay(li, s.kinds[ki].need)
				if pass == 0 {
					s.pi[ki] = min(s.pi[ki], c)
				} else if c <= least[ki] {
					on = true
					break
				}
			}
			if on {
				s.near = append(s.near, li)
			}
		}
		for _, ki := range s.all {
			least[ki] = s.pi[ki] * (1 + nearby*spread)
		}
	}
	s.work += len(s.lanes) * len(s.all) / rentSpeed
	sum := 0.0
	for _, ki := range s.all {
		if math.IsInf(s.pi[ki], 1) {
			s.pi[ki] = 0 // No lane takes it.
		}
		sum += s.pi[ki] * float64(s.counts[ki])
	}
	return sum
}

// round spreads the kinds over the near lanes, the cheaper the more, and makes dearer what is used more than the rest of a
// lane.
func (s *rents) round(spread float64) {
	clear(s.use)
	for _, ki := range s.all {
		s.spreadKind(ki, spread)
	}
	s.work += len(s.near) * len(s.all) / rentSpeed
	for _, li := range s.near {
		use, part, mean := s.use[li*s.dims:(li+1)*s.dims], s.part[li*s.dims:(li+1)*s.dims], 0.0
		for i, x := range s.lanes[li].free {
			use[i] /= float64(max(x, 1))
			mean += part[i] * use[i]
		}
		if mean <= 0 {
			continue
		}
		for i, x := range s.lanes[li].free {
			if x > 0 {
				part[i] = max(part[i], smallest) * math.Exp(rentStep*spread*min(use[i]/mean-1, 1))
			}
		}
		even(part)
		s.charge(li)
	}
}

func (s *rents) spreadKind(ki int, spread float64) {
	kd, least := &s.kinds[ki], math.Inf(1)
	for j, li := range s.near {
		s.pays[j] = math.Inf(1)
		if s.holds[li][ki] > 0 {
			s.pays[j] = s.pay(li, kd.need)
			least = min(least, s.pays[j])
		}
	}
	if math.IsInf(least, 1) || least <= 0 {
		return
	}
	sum := 0.0
	for j := range s.near {
		// What is farther off than this counts for nothing.
		if over := (s.pays[j]/least - 1) / spread; over < 12 {
			s.pays[j] = math.Exp(-over)
			sum += s.pays[j]
		} else {
			s.pays[j] = 0
		}
	}
	for j, li := range s.near {
		if s.pays[j] == 0 {
			continue
		}
		n := s.pays[j] / sum * float64(s.counts[ki])
		for i, x := range kd.need {
			s.use[li*s.dims+i] += n * float64(x)
		}
	}
}

// right lets those of the near lanes charge more whose nodes hold less than they charge for, and less where they hold more.
func (s *rents) right() {
	s.weigh(s.counts, s.pi)
	for _, li := range s.near {
		price := s.lanes[li].price
		if price <= 0 {
			continue
		}
		s.moves = 6
		s.by[li] = nil
		most := s.most(li, s.all, s.counts, s.pi, price*0.9)
		if tight, ok := s.onThinGrid(li, s.wares(li, s.all, s.counts, s.pi, s.weights(li)), price*0.9); ok {
			most = min(most, tight)
		}
		s.price[li] = max(price, min(s.price[li]*price/max(most, price/2), price*rightedMost))
		s.charge(li)
	}
}
