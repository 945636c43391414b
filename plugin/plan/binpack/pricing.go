package binpack

// pricer solves the pricing problem of column generation: at given values of the items, which bin types can hold more value
// than they cost? Such a content is a column with negative reduced cost. A relaxation rules most bin types out; where it
// does not, dynamic programming finds the most valuable content, or bounds it.
type pricer struct {
	*packer
	// at is the stock at the values in question.
	at stock
	// add takes a content that may pay, and reports whether it is a new column; nil where the bound alone counts.
	add func(bi int, items []Item) bool
	// ratio is an upper bound of the value per dollar of each bin type at these values; exact says that no more work makes it
	// less.
	ratio []float64
	exact []bool
	// from is the work that was done before: large tables are for those who have done much already.
	from int
}

func newPricer(k *packer, at stock) pricer {
	return pricer{packer: k, at: at, ratio: make([]float64, len(k.bins)), exact: make([]bool, len(k.bins))}
}

// relaxedPricing returns an upper bound of the value per dollar of a bin, from a relaxation, and whether that rules out
// that any column pays.
func (s *pricer) relaxedPricing(bi int) (float64, bool) {
	price := s.bins[bi].price
	most := s.upperBound(bi, s.at, price, quickMoves)
	if most > price {
		most = s.upperBound(bi, s.at, price, pricingMoves)
	}
	return perDollar(most, price), most <= price
}

// exactPricing looks for columns of a bin type whose bins hold no more than most. It returns an upper bound of the value
// per dollar, whether it looked as hard as it can, and whether it found new columns.
func (s *pricer) exactPricing(bi, limit int, most float64) (ratio float64, exact, found bool) {
	price := s.bins[bi].price
	limit = min(limit, smallTable+(s.work.done-s.from)*tableSpeed/4)
	if s.add == nil {
		if tight, ok := s.boundByDP(bi, s.byDensity(bi, s.at), price, coarseLimit); ok {
			if most = min(most, tight); most <= price {
				return perDollar(most, price), true, false
			}
		}
	}
	var add func([]Item)
	if s.add != nil {
		add = func(items []Item) { found = s.add(bi, items) || found }
	}
	upper, ok := s.byDP(bi, s.byDensity(bi, s.at), dpLimits{floor: price, cells: min(limit, smallTable)}, add)
	if !ok && limit > smallTable {
		switch {
		case limit > tableLimit:
		case add == nil:
			most = min(most, s.upperBound(bi, s.at, price, tightMoves))
		default:
			add(s.best(bi, s.at, price, hasty()).items)
		}
		if !found {
			upper, ok = s.byDP(bi, s.byDensity(bi, s.at), dpLimits{floor: price, cells: limit, round: add != nil}, add)
		}
	}
	return perDollar(min(most, upper), price), ok, found
}

// price looks for the value per dollar of one bin type, first relaxed, then exact.
func (s *pricer) price(bi, limit int) {
	ratio, none := s.relaxedPricing(bi)
	s.ratio[bi], s.exact[bi] = ratio, true
	if !none {
		s.ratio[bi], s.exact[bi], _ = s.exactPricing(bi, limit, ratio*charged(s.bins[bi].price))
	}
}

// value returns what the whole stock is worth.
func (s *pricer) value() float64 {
	value := 0.0
	for _, ti := range s.all {
		value += float64(s.at.counts[ti]) * s.at.values[ti]
	}
	return value
}

// top returns the bin type with the most value per dollar.
func (s *pricer) top() int {
	top := 0
	for bi, r := range s.ratio {
		if r > s.ratio[top] {
			top = bi
		}
	}
	return top
}

// bound returns what the values prove (Farley 1990): scaled down until no bin holds more value than it costs, they are
// feasible duals of the covering program, and what the stock is worth at them is a lower bound of what any bins for it cost.
// What a bin can hold is taken from a relaxation, or from a table where that decides; of the caps, how many items of one type a bin
// holds alone counts. So the bound holds for all values; good ones make it tight. It is 0 for nothing proven.
func (s *pricer) bound() float64 {
	if r := s.ratio[s.top()]; r > 0 {
		return s.value() / r
	}
	return 0
}

// prove looks at all bin types, and at those that decide as hard as it can, for the best bound that the values prove. It returns 0
// where the budget ends before.
func (s *pricer) prove() float64 {
	for bi := range s.bins {
		if s.price(bi, tableLimit); s.work.spent() {
			return 0
		}
	}
	best := max(s.bound(), s.wholeBins())
	refined := make([]bool, len(s.bins))
	for range proofTables {
		top := s.top()
		if refined[top] {
			break
		}
		s.refine(top)
		refined[top] = true
		if s.work.spent() {
			return best
		}
		best = max(best, s.bound())
	}
	return max(best, s.wholeBins())
}

// refine looks as hard as it can for a lower value per dollar of a bin type.
func (s *pricer) refine(bi int) {
	if !s.exact[bi] {
		s.price(bi, proofLimit)
	}
	price := s.bins[bi].price
	if most, ok := s.boundByDP(bi, s.byDensity(bi, s.at), price, refineLimit); ok {
		s.ratio[bi] = min(s.ratio[bi], perDollar(most, price))
	}
}
