package binpack

import (
	"math"
	"slices"
)

const (
	// openShare is what the covering program may leave open between its solution and the bound.
	openShare = 0.001
	// A plan's program, whose rounding costs more, may leave slowShare open where the last slowRounds made it cheaper by less than
	// slowGain.
	slowShare  = 0.003
	slowRounds = 3
	slowGain   = 0.001
	// repairShare is what it may leave open without further ado.
	repairShare = 0.005
	// steadyTrust is how far the values at which nodes are filled follow the duals at most while those still find columns.
	steadyTrust = 0.4
	// cellSpeed is how many values of the covering program are one step of work.
	cellSpeed = 32
	// trustStep is by how much they follow them more where there are none.
	trustStep = 0.2
)

// covering is the solution of the covering program: the values of the rows and of the kinds, the patterns of the rows
// with how often they are used, and the bound that the values prove.
type covering struct {
	rows, kinds []float64
	columns     []column
	levels      []float64
	bound       float64
}

// values prices the kinds by column generation: solve, price the kinds by the duals, look for nodes that hold more than
// they cost at these prices, again, until there is none or the work is used up.
func (k *packer) values(counts []int, budget int) covering {
	if k.forRent {
		return k.rented(counts, budget)
	}
	from, until := k.work, k.work+budget
	s := seeker{
		packer: k, from: from, m: k.newMaster(counts), counts: counts, trust: steadyTrust,
		pi: make([]float64, len(k.kinds)), at: make([]float64, len(k.kinds)),
		ratio: make([]float64, len(k.lanes)), exact: make([]bool, len(k.lanes)), loose: make([]float64, len(k.lanes)),
	}
	for li := range s.loose {
		s.loose[li] = 1
	}
	s.steady = k.first(counts)
	s.composeFirst()
	for k.work < until && !s.done {
		s.solve()
		s.seek()
		s.m.trim(s.pi)
	}
	s.solve()
	s.follow(1)
	if s.proof {
		s.prove()
	}
	for ki := range s.pi {
		s.pi[ki] = max(s.pi[ki], 0)
	}
	if s.bound < s.m.cost()*(1-repairShare) && k.wantsBound {
		// The work did not suffice: the values have to come down where nodes hold more than they cost.
		s.at = k.repair(counts, slices.Clone(s.pi))
		s.prove()
	}
	return covering{rows: s.pi, columns: s.m.basis, levels: s.m.level, bound: s.bound}
}

// first are the values that a search starts from: those of the hint, by size where there is none.
func (k *packer) first(counts []int) []float64 {
	out := k.fluid(counts)
	for ki := range out {
		if k.hint != nil && k.hint[ki] > 0 {
			out[ki] = k.hint[ki]
		}
	}
	return out
}

// rented prices the kinds without a covering program: where there are many kinds, that takes too long.
func (k *packer) rented(counts []int, budget int) covering {
	pi := k.rent(counts, budget)
	return covering{rows: pi, bound: k.boundOf(pi)}
}

// seeker looks for columns that pay.
type seeker struct {
	*packer
	m      *master
	counts []int
	// pi are the duals of the program; at the prices for which nodes are filled: between the duals and those steady ones
	// that prove the best bound so far (Wentges 1997), by trust.
	pi, at, steady []float64
	trust          float64
	bound          float64
	// ratio is an upper bound of what a node of each lane holds for a dollar; exact says that no more work makes it less.
	ratio []float64
	exact []bool
	// loose is by how much the grid last corrected each lane's ratio; was are the prices at which the ratios were found.
	loose, was []float64
	// from is the work that was done before.
	from int
	// found says that the last round found columns, done that there are none or that they cannot matter.
	found, done bool
	// costs are what the program cost in each round.
	costs []float64
}

// composeFirst starts the program with the nodes of a quick composition.
func (s *seeker) composeFirst() {
	values := raised(s.steady, s.prices())
	s.hasty = true
	first, _ := s.newComposer(s.counts, values).compose(slices.Clone(s.counts), values, s.p.cloneRoom(), math.Inf(1))
	s.hasty = false
	for _, r := range first {
		s.m.pool = append(s.m.pool, column{lane: r.lane, cost: s.lanes[r.lane].price, items: r.items})
	}
}

func (s *seeker) solve() {
	s.m.solve(s.pi)
	s.work += s.m.cells / cellSpeed
}

// follow sets the prices for which nodes are filled.
func (s *seeker) follow(trust float64) {
	for _, ki := range s.all {
		s.at[ki] = max(trust*s.pi[ki]+(1-trust)*s.steady[ki], 0)
	}
	s.weigh(s.counts, s.at)
}

// enough says that the program is as good as it has to be.
func (s *seeker) enough() bool {
	cost := s.m.cost()
	s.costs = append(s.costs, cost)
	before := len(s.costs) - 1 - slowRounds
	slow := !s.proof && before >= 0 && cost > s.costs[before]*(1-slowGain)
	return s.bound >= cost*(1-openShare) || slow && s.bound >= cost*(1-slowShare)
}

func (s *seeker) pool() []column {
	if s.m == nil {
		return nil
	}
	return s.m.pool
}

// add adds the column to the program if it pays and is new.
func (s *seeker) add(li int, items []Item) {
	c := column{lane: li, cost: s.lanes[li].price, items: items}
	if s.m == nil || len(items) == 0 || c.gain(s.pi) <= 1+1e-6 {
		return
	}
	c.items = slices.Clone(items)
	slices.SortFunc(c.items, compareItems)
	for i := len(s.m.pool) - 1; i >= 0 && s.m.pool[i].lane == li; i-- {
		if slices.Equal(s.m.pool[i].items, c.items) {
			return
		}
	}
	s.m.pool = append(s.m.pool, c)
	s.found = true
}
