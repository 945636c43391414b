package binpack

import (
	"cmp"
	"math"
	"slices"
)

const (
	// wholeCells is into how many parts the value of the stock is divided where whole bins are counted.
	wholeCells = 20_000
	// fewWhole is how many of the bins that hold the most are few: with more, parts of bins cost next to as much as whole ones.
	fewWhole = 100
	// spareSteps is how often bins with more spare room are tried, each time for spareStep of the parts more.
	spareSteps = 12
	spareStep  = wholeCells / 200
)

// holding is the price of a bin type, and how many parts of the value of the stock it can hold.
type holding struct {
	bin   int
	price float64
	parts int
}

// wholeCover is the least that whole bins cost for each number of parts of the value of the stock, and the holding that came last into them.
type wholeCover struct {
	holdings []holding
	least    []float64
	last     []int32
}

// wholeBins returns the least that whole bins cost which can hold the value of the stock together. A bin type can hold no more than its
// ratio says, so that no packing costs less. The program's own bound allows parts of bins, which matters where few are bought. It returns 0
// where many are.
func (s *pricer) wholeBins() float64 {
	c := s.coverWhole(wholeCells)
	if c == nil {
		return 0
	}
	return c.least[wholeCells] * (1 - 1e-9)
}

// coverWhole covers each number of parts up to most with whole bins; nil where there are many.
func (s *pricer) coverWhole(most int) *wholeCover {
	c := &wholeCover{holdings: s.holdings()}
	if n := len(c.holdings); n == 0 || c.holdings[n-1].parts*fewWhole < wholeCells {
		return nil
	}
	s.work.add(most * len(c.holdings) / tableSpeed)
	c.least, c.last = make([]float64, most+1), make([]int32, most+1)
	for n := 1; n < len(c.least); n++ {
		c.least[n] = math.Inf(1)
		for i := range c.holdings {
			h, rest := &c.holdings[i], 0.0
			if n > h.parts {
				rest = c.least[n-h.parts]
			}
			if rest+h.price < c.least[n] {
				c.least[n], c.last[n] = rest+h.price, int32(i)
			}
		}
	}
	return c
}

// bins returns the bin types of the cover of n parts, the most expensive first.
func (c *wholeCover) bins(n int) []int {
	var out []int
	for n > 0 {
		h := &c.holdings[c.last[n]]
		out = append(out, h.bin)
		n -= h.parts
	}
	slices.SortFunc(out, func(a, b int) int { return cmp.Compare(b, a) })
	return out
}

// holdings lists the bin types that hold more than all cheaper ones, the cheapest first. What each holds is rounded up.
func (s *pricer) holdings() []holding {
	value := s.value() * (1 - 1e-9)
	if value <= 0 {
		return nil
	}
	var all []holding
	for bi, ratio := range s.ratio {
		price := s.bins[bi].price
		if parts := math.Ceil(ratio * charged(price) / value * wholeCells * (1 + 1e-9)); parts > 0 {
			all = append(all, holding{bi, price, int(min(parts, wholeCells))})
		}
	}
	slices.SortFunc(all, func(a, b holding) int { return cmp.Or(cmp.Compare(a.price, b.price), cmp.Compare(b.parts, a.parts)) })
	var out []holding
	for _, h := range all {
		if len(out) == 0 || h.parts > out[len(out)-1].parts {
			out = append(out, h)
		}
	}
	return out
}

// inWhole packs the items into few whole bins that cost less than the bill, if it finds some that hold them all: first those that can just hold
// the value of all items, then such with ever more room to spare.
func (s *attempt) inWhole(r *rows, c coverSolution, bill float64) ([]box, bool) {
	k, counts, values := s.packer, s.p.counts(), c.values
	if c.proven != nil {
		values = c.proven
	}
	pr := newPricer(r.packer, stock{types: r.all, counts: r.p.counts(), values: values})
	r.weigh(pr.at.counts, values)
	for bi := range r.bins {
		pr.price(bi, smallTable)
	}
	cover := pr.coverWhole(wholeCells + spareSteps*spareStep)
	if cover == nil {
		return nil, false
	}
	for n := wholeCells; n < len(cover.least) && cover.least[n] < bill-1e-9 && !r.work.spent(); n += spareStep {
		if out, ok := k.distribute(cover.bins(n), counts); ok {
			return out, true
		}
	}
	return nil, false
}

// distribute packs all items into the bins: each item type in proportion to the size of the bins, so that all of them hold the mix of the
// whole, and what is left, the largest first, where there is the most room of what it needs. It returns false where that does not hold all
// items, or the limits do not allow the bins.
func (k *packer) distribute(bins, counts []int) ([]box, bool) {
	out, sizes, room := make([]box, len(bins)), make([]float64, len(bins)), k.p.cloneRoom()
	for i, bi := range bins {
		if k.p.affordable(&k.bins[bi], 1, room) == 0 {
			return nil, false
		}
		k.p.spend(&k.bins[bi], 1, room)
		out[i] = box{bin: bi, sum: make(Vec, k.p.dims)}
		for d, n := range k.bins[bi].free {
			sizes[i] += k.scale[d] * float64(n)
		}
	}
	left := slices.Clone(counts)
	for _, ti := range k.bySize {
		all := 0.0
		for i, bi := range bins {
			if k.types[ti].takes.Has(bi) {
				all += sizes[i]
			}
		}
		for i := range out {
			if n := int(float64(counts[ti]) * sizes[i] / max(all, 1e-12)); n > 0 {
				left[ti] -= k.put(&out[i], ti, min(n, left[ti]))
			}
		}
	}
	for _, ti := range k.bySize {
		for left[ti] > 0 {
			i := k.roomiest(out, ti)
			if i < 0 {
				return nil, false
			}
			left[ti] -= k.put(&out[i], ti, 1)
		}
	}
	k.work.add(len(k.bySize) * len(bins))
	return slices.DeleteFunc(out, func(b box) bool { return len(b.items) == 0 }), true
}

// put puts as many of the item type into the box as it takes, at most want, and returns how many.
func (k *packer) put(b *box, ti, want int) int {
	l, t := &k.bins[b.bin], &k.types[ti]
	if !t.takes.Has(b.bin) {
		return 0
	}
	n := min(want, timesBeside(l.free, b.sum, t.need))
	if n > 0 && !t.free() {
		n = min(n, k.p.more(b.items, ti, l.pool))
	}
	if n <= 0 {
		return 0
	}
	b.items = addTo(b.items, Item{ti, n})
	b.sum.add(t.need, int64(n))
	return n
}

// roomiest returns the box that takes one of the item type and has the most room of what it needs; -1 for none.
func (k *packer) roomiest(list []box, ti int) int {
	best, most := -1, 0.0
	for i := range list {
		b := &list[i]
		l, t := &k.bins[b.bin], &k.types[ti]
		if !t.takes.Has(b.bin) || timesBeside(l.free, b.sum, t.need) < 1 || !t.free() && k.p.more(b.items, ti, l.pool) < 1 {
			continue
		}
		room := 0.0
		for d, n := range t.need {
			free := float64(max(l.free[d], 1))
			room += float64(n) / free * float64(l.free[d]-b.sum[d]) / free
		}
		if best < 0 || room > most {
			best, most = i, room
		}
	}
	k.work.add(len(list))
	return best
}
