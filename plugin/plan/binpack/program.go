package binpack

import (
	"cmp"
	"math"
	"slices"
)

const (
	// openShare is what the covering program may leave open between its solution and the bound.
	openShare = 0.001
	// The program of a packing, whose rounding costs more, may leave slowShare open where the last slowRounds made it
	// cheaper by less than slowGain.
	slowShare  = 0.003
	slowRounds = 3
	slowGain   = 0.001
	// steadyShare is what may be open where the values that prove the bound are better than the duals, at which single bins may seem to hold
	// far more than they cost.
	steadyShare = 0.005
	// feasibleShare is what may be open before the values are made feasible for the bound.
	feasibleShare = 0.005
	// maxSmoothing is how far the values at which bins are priced follow the duals at most while those still find columns,
	// smoothingStep by how much more they follow them where there are none.
	maxSmoothing  = 0.4
	smoothingStep = 0.2
	// cellSpeed is how many values of the master program are one step of work.
	cellSpeed = 32
	// payingBins is how many bin types with columns that pay are enough for one round: at the next one's values, those of others
	// may pay no more.
	payingBins = 12
	// A program that is solved for its bound alone may have many rows. For each of them it keeps rowColumns columns at least, and a round ends after
	// one bin type that pays for so many rows.
	rowColumns = 40
	payingRows = 5
)

// goal says what a covering program is solved for.
type goal struct {
	// bound says that a lower bound is wanted, even where the work does not suffice to solve the program.
	bound bool
	// proof says that the bound is all that is wanted.
	proof bool
	// start are values, by item type, that the search starts from; nil for none.
	start []float64
}

// coverSolution is the solution of a covering program: the value of each of its item types, the patterns with how often they are used,
// and the bound that the values prove.
type coverSolution struct {
	values []float64
	// proven are the values that prove the bound, scaled so that no bin holds more than it costs; nil where that are all.
	proven []float64
	// fine are the values of the rows that these aggregate; nil where there are none.
	fine    []float64
	columns []column
	levels  []float64
	bound   float64
}

// generation solves a covering program by column generation (Gilmore and Gomory 1961): solve the master program over the patterns
// known, look for patterns that are worth more than they cost at its duals, again, until there is none or the work is used
// up. Bins are priced between the duals and the stabilization center, the values that prove the best bound so far (Wentges
// 1997): the duals alone jump about while patterns are few.
type generation struct {
	pricer
	goal goal
	m    *master
	// duals are those of the master program, center the values that prove best, smoothing how far the values in question follow the duals.
	duals, center []float64
	smoothing     float64
	best          float64
	// correction is by how much exact pricing last corrected each bin type's ratio; was are the values at which the ratios were
	// found.
	correction, was []float64
	// paying is how many bin types with columns that pay are enough for one round.
	paying int
	// costs are what the master program cost in each round.
	costs []float64
}

// solveProgram solves the covering program of the packer's item types with so much work.
func solveProgram(k *packer, g goal, work int) coverSolution {
	from, counts, n := k.work.done, k.p.counts(), len(k.types)
	s := generation{
		goal: g, m: newMaster(k, counts), smoothing: maxSmoothing, duals: make([]float64, n), correction: make([]float64, len(k.bins)),
		pricer: newPricer(k, stock{types: k.all, counts: counts, values: make([]float64, n)}),
	}
	s.from, s.add = from, s.column
	s.paying = payingBins
	if g.proof {
		s.paying, s.m.most = max(payingBins, len(s.m.rows)/payingRows), max(maxColumns, rowColumns*len(s.m.rows))
	}
	for bi := range s.correction {
		s.correction[bi] = 1
	}
	s.center = firstValues(k, counts, g.start)
	s.startColumns()
	if g.proof && g.start != nil {
		s.smooth(0)
		s.prove()
		s.keepBound()
	}
	for done := false; k.work.within(from+work) && !done; {
		s.m.solve(s.duals)
		done = s.round()
		s.m.trim(s.duals)
	}
	s.m.solve(s.duals)
	s.smooth(1)
	if g.proof {
		for _, smoothing := range proofSmoothing() {
			s.smooth(smoothing)
			if s.best = max(s.best, s.prove()); s.best >= s.m.cost()*(1-openShare) {
				break
			}
		}
	}
	for ti := range s.duals {
		s.duals[ti] = max(s.duals[ti], 0)
	}
	if s.best < s.m.cost()*(1-feasibleShare) && g.bound {
		s.at.values = feasible(k, counts, slices.Clone(s.duals), valuesWork)
		s.best = max(s.best, s.prove())
	}
	out := coverSolution{values: s.duals, proven: s.center, columns: s.m.basis, levels: s.m.level, bound: s.best}
	if s.best >= s.m.cost()*(1-steadyShare) {
		out.values = s.center
	}
	return out
}

// proofSmoothing are how far values follow the duals, back from the center, of which the best bound is taken: the duals of a program
// that was not solved to its end jump about.
func proofSmoothing() []float64 { return []float64{0, 0.25, 0.5, 1} }

// firstValues are those that a search starts from: those given, by size where there are none.
func firstValues(k *packer, counts []int, start []float64) []float64 {
	out := divisible(k, counts)
	for ti := range out {
		if start != nil && start[ti] > 0 {
			out[ti] = start[ti]
		}
	}
	return out
}

// startColumns starts the program with the bins of a quick cover.
func (s *generation) startColumns() {
	values := raised(s.center, sharePrices(s.packer))
	first, _ := newGreedyCover(s.packer, s.at.counts, values).cover(
		stock{types: s.all, counts: slices.Clone(s.at.counts), values: values}, s.p.cloneRoom(), math.Inf(1), coverEffort{effort: hasty()})
	for _, r := range first {
		s.m.pool = append(s.m.pool, column{bin: r.bin, cost: s.bins[r.bin].price, items: r.items})
	}
}

// smooth sets the values at which bins are priced.
func (s *generation) smooth(smoothing float64) {
	for _, ti := range s.all {
		s.at.values[ti] = max(smoothing*s.duals[ti]+(1-smoothing)*s.center[ti], 0)
	}
	s.weigh(s.at.counts, s.at.values)
}

// round adds columns of bin types that have some that pay, those first that seem to hold the most for a dollar, and keeps the bound
// that the values prove. It returns true when there are no more, or none that matter, or the budget is spent.
func (s *generation) round() bool {
	s.smooth(s.smoothing)
	found, paying := false, 0
	for _, bi := range s.candidateBins() {
		relaxed, pays := s.ratio[bi], false
		s.ratio[bi], s.exact[bi], pays = s.exactPricing(bi, tableLimit, relaxed*charged(s.bins[bi].price))
		s.correction[bi] = s.ratio[bi] / relaxed
		if pays {
			found = true
			paying++
		}
		if paying == s.paying || s.work.spent() {
			break
		}
	}
	if s.work.spent() {
		return true // Not all ratios are those of the values: they prove nothing.
	}
	s.keepBound()
	switch {
	case s.enough():
		return true
	case found:
		s.smoothing = min(s.smoothing, maxSmoothing)
	case s.smoothing < 1:
		s.smoothing = min(s.smoothing+smoothingStep, 1)
	default:
		return true
	}
	return false
}

// candidateBins returns the bin types that may hold more than they cost, those first that seem to hold the most for a dollar. A bin
// type whose last bound suffices even if all item types had risen in value by as much as any did is not looked at.
func (s *generation) candidateBins() []int {
	rise := s.largestRise()
	s.was = append(s.was[:0], s.at.values...)
	var out []int
	for bi := range s.bins {
		if upper := s.ratio[bi] * rise; upper > 0 && upper <= 1 {
			s.ratio[bi] = upper
			continue
		}
		if s.ratio[bi], s.exact[bi] = s.relaxedPricing(bi); !s.exact[bi] {
			out = append(out, bi)
		}
		if s.work.spent() {
			return nil
		}
	}
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(s.ratio[b]*s.correction[b], s.ratio[a]*s.correction[a]) })
	return out
}

// largestRise returns the largest factor by which the value of an item type has risen since the ratios were found.
func (s *generation) largestRise() float64 {
	if s.was == nil {
		return math.Inf(1)
	}
	out := 0.0
	for _, ti := range s.all {
		switch now := s.at.values[ti]; {
		case now <= 0:
		case s.was[ti] <= 0:
			return math.Inf(1)
		default:
			out = max(out, now/s.was[ti])
		}
	}
	return out
}

// keepBound keeps the bound that the values prove if it is the best so far, and the values as the stabilization center.
func (s *generation) keepBound() {
	bound := s.bound()
	if bound <= s.best {
		return
	}
	s.best = bound
	top := s.ratio[s.top()]
	for _, ti := range s.all {
		s.center[ti] = s.at.values[ti] / top
	}
}

// enough reports whether the program is solved as well as it has to be.
func (s *generation) enough() bool {
	cost := s.m.cost()
	s.costs = append(s.costs, cost)
	before := len(s.costs) - 1 - slowRounds
	slow := !s.goal.proof && before >= 0 && cost > s.costs[before]*(1-slowGain)
	return s.best >= cost*(1-openShare) || slow && s.best >= cost*(1-slowShare)
}

// column adds the content of a bin to the master program if it pays and is new.
func (s *generation) column(bi int, items []Item) bool {
	c := column{bin: bi, cost: s.bins[bi].price, items: items}
	if len(items) == 0 || c.valuePerDollar(s.duals) <= 1+1e-6 {
		return false
	}
	c.items = slices.Clone(items)
	slices.SortFunc(c.items, compareItems)
	for i := len(s.m.pool) - 1; i >= 0 && s.m.pool[i].bin == bi; i-- {
		if slices.Equal(s.m.pool[i].items, c.items) {
			return false
		}
	}
	s.m.pool = append(s.m.pool, c)
	return true
}
