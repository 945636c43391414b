package binpack

import (
	"slices"

	"github.com/slipway-k8s/slipway/plugin/plan/budget"
)

// What packing may cost, in steps of work. Budgets count work, not time, so that the same input gives the same plan.
const (
	valuesWork  = 24_000_000
	improveWork = 12_000_000
	// manyTypes is how many item types the search improves with improveWork; more have more in proportion.
	manyTypes = 5000
	// A batch of fullBatch pods gets all of it, one of few pods leastWork of it, and leastValues of that for values.
	fullBatch   = 2000
	leastWork   = 0.2
	leastValues = 0.4
)

// inProportion is the share of the work that a batch of so many pods is worth, at least so much: fewer pods are a smaller bill.
func inProportion(pods int, least float64) float64 {
	return min(least+(1-least)*float64(pods)/fullBatch, 1)
}

// Options say how hard to look for a packing.
type Options struct {
	// Efforts are the multiples of the default work that are tried one after the other; the best result counts.
	Efforts []float64
	// Sketch says that a first fit is not worth its work.
	Sketch bool
	// Bound says that a lower bound is wanted as well, and values that prove it.
	Bound bool
	// Budget is that of the whole question; nil for one without end.
	Budget *budget.Budget
}

// Box is one bin to buy, with what is in it.
type Box struct {
	// Bin is the index of the candidate.
	Bin int
	// Items are those in it, by item type.
	Items []Item
}

// Result is the best packing found.
type Result struct {
	Boxes []Box
	// Left is how many of each item type have no bin.
	Left []int
	// Values are what one item of each type was taken to cost in the best mix, in USD per hour; nil for unknown.
	Values []float64
	// Bound is what no bins for all items can cost less than, in USD per hour; 0 for nothing proven.
	Bound float64
	// FirstFit is what the packing by first fit costs, in USD per hour.
	FirstFit float64
}

// Solve packs the items. It begins with a first fit, which is the answer where nothing is left of the budget.
func Solve(in *Problem, o Options) Result {
	p := newProblem(in)
	k := newPacker(p, meter{budget: o.Budget})
	best := outcome{left: p.counts()}
	if !o.Sketch {
		best = firstFit(k, p.counts(), p.cloneRoom(), nil)
	}
	out := Result{FirstFit: p.bill(best.boxes)}
	if len(k.bins) > 0 && len(k.all) > 0 {
		worth, values := inProportion(p.pods(p.counts()), leastWork), inProportion(p.pods(p.counts()), leastValues)
		for _, share := range o.Efforts {
			if k.work.spent() && !o.Sketch {
				break
			}
			s := attempt{packer: k, share: share * worth, valuesShare: share * values, goal: goal{bound: o.Bound}}
			found, bound := s.pack()
			if p.better(found, best) {
				best = found
			}
			if o.Bound && p.pods(best.left) == 0 {
				out.Bound = max(out.Bound, atLeast(k, bound, p.bill(best.boxes)))
			}
			out.Values = s.values
		}
	}
	for _, b := range best.boxes {
		out.Boxes = append(out.Boxes, Box{Bin: p.bins[b.bin].offer, Items: b.items})
	}
	out.Left = best.left
	return out
}

// Known is what is known of a problem before its bound is sought.
type Known struct {
	// Values are near what the item types are worth; nil for unknown.
	Values []float64
	// Bound is what was proven, Cost what some packing costs, in USD per hour.
	Bound, Cost float64
	// Effort is the multiple of the default work, if that is more.
	Effort float64
}

// fewBoxes is how many boxes are tried to be packed into other whole bins.
const fewBoxes = 16

// provenEnough is what may be open between a bound and a packing where the bound was found by resource prices, to leave it at that.
const provenEnough = 0.005

// LowerBound returns what no bins for all items can cost less than, in USD per hour. It returns what is known where the
// budget ends before.
func LowerBound(in *Problem, known Known, b *budget.Budget) float64 {
	k := newPacker(newProblem(in), meter{budget: b})
	if len(k.bins) == 0 {
		return 0
	}
	s := attempt{packer: k, valuesShare: max(known.Effort, 1), goal: goal{bound: true, proof: true, start: known.Values}}
	best := known.Bound
	first := resourceRows(k, fewAscent)
	if first != nil {
		best = max(best, s.program(first).bound)
		s.goal.start = s.values
	}
	r := newRows(k)
	if r.byResources && known.Effort > 1 {
		if patterns := patternRows(k); patterns != nil {
			r = patterns
		}
	}
	if first == nil || !r.byResources && best < known.Cost*(1-provenEnough) {
		best = max(best, s.program(r).bound)
	}
	return atLeast(k, best, known.Cost)
}

// attempt packs with a share of the default work.
type attempt struct {
	*packer
	// share is that of improving the packing, valuesShare that of finding values.
	share, valuesShare float64
	goal               goal
	// values are those of the item types that the last program ended with.
	values []float64
}

// pack packs the item types, and returns what no packing of them can be cheaper than: rows share bins with more others than item types do, so
// that what bounds them bounds the item types. Where bins hold many items of many types, there are too many patterns to look at: if
// they leave much open, resource prices are tried as well.
func (s *attempt) pack() (outcome, float64) {
	r := newRows(s.packer)
	best, bound := s.packRows(r)
	if r.byResources || !s.goal.bound || s.p.bill(best.boxes) <= bound*(1+patternShare) {
		return best, bound
	}
	if r = resourceRows(s.packer, fewAscent); r != nil {
		other, proven := s.packRows(r)
		bound = max(bound, proven)
		if s.p.better(other, best) {
			best = other
		}
	}
	return best, bound
}

func (s *attempt) packRows(r *rows) (outcome, float64) {
	c := s.program(r)
	out := s.round(r, c)
	if bill := s.p.bill(out.boxes); len(out.boxes) <= fewBoxes && s.p.pods(out.left) == 0 && bill > c.bound*goodEnough && !s.work.spent() {
		if boxes, ok := s.inWhole(r, c, bill); ok {
			out.boxes = boxes
		}
	}
	return out, c.bound
}

// program solves the covering program of the rows, and leaves the values of the item types in s.values.
func (s *attempt) program(r *rows) coverSolution {
	g := s.goal
	g.start = r.start(s.packer, g.start)
	c := r.solve(g, int(valuesWork*s.valuesShare))
	if r.fine != nil {
		s.values = r.fine.spread(s.packer, r.fine.p.counts(), c.fine)
		return c
	}
	s.values = r.spread(s.packer, r.p.counts(), c.values)
	if !r.exact {
		s.values = feasible(s.packer, s.p.counts(), s.values, int(valuesWork*s.valuesShare))
		c.bound = boundOf(s.packer, s.values)
	}
	return c
}

// raised gives item types that the best mix runs for nothing, in the slack of others, a small price: they have to be
// placed.
func raised(values, prices []float64) []float64 {
	for i := range prices {
		prices[i] = max(values[i], prices[i]/100)
	}
	return prices
}

// round uses the whole part of the program's solution, covers the rest greedily, and improves the result. Patterns of rows whose item
// types differ fit item types badly: there all is covered greedily.
func (s *attempt) round(r *rows, c coverSolution) outcome {
	k, work := s.packer, int(improveWork*s.share*max(1, float64(len(s.all))/manyTypes))
	own := stock{types: k.all, counts: k.p.counts(), values: raised(s.values, sharePrices(k))}
	var found []box
	if r.exact {
		for _, x := range s.roundRows(r, c, k.p.cloneRoom()) {
			found = append(found, r.realize(k, x.pattern, x.n, own.counts)...)
		}
	}
	room := k.p.roomBeside(found)
	cover := newGreedyCover(k, k.p.counts(), own.values)
	found = append(found, boxes(k.p, cover.inParts(own, room))...)
	room = k.p.roomBeside(found)
	if k.work.spent() {
		fit := firstFit(k, own.counts, room, cover.economical())
		rest := firstFit(k, fit.left, room, nil)
		return outcome{slices.Concat(found, fit.boxes, rest.boxes), rest.left}
	}
	often := looks
	if c.columns != nil {
		often = looksAtPatterns
	}
	found = improve(cover, outcome{found, own.counts}, own.values, room, searchLimits{work, work / often, c.bound * goodEnough})
	return outcome{found, own.counts}
}

// roundRows returns the whole part of the program's patterns, and a greedy cover of what they leave of the rows.
func (s *attempt) roundRows(r *rows, c coverSolution, room [][]int64) []repeated {
	counts := r.p.counts()
	var list []repeated
	for i, x := range c.columns {
		if x.bin < 0 {
			continue
		}
		n := s.p.affordable(&s.bins[x.bin], min(int(c.levels[i]+1e-6), copies(x.items, counts)), room)
		if n == 0 {
			continue
		}
		list = append(list, repeated{pattern{bin: x.bin, items: x.items}, n})
		for _, it := range x.items {
			counts[it.Type] -= n * it.N
		}
		s.p.spend(&s.bins[x.bin], n, room)
	}
	values := raised(c.values, sharePrices(r.packer))
	rest, _ := newGreedyCover(r.packer, r.p.counts(), values).cover(stock{types: r.all, counts: counts, values: values}, room, 1e18, coverEffort{effort: thorough()})
	return append(list, rest...)
}
