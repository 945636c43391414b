package binpack

// What packing may cost, in steps of work. Budgets count work, not time, so that the same input gives the same plan.
const (
	valuesWork  = 9_000_000
	improveWork = 6_000_000
	// A batch of fullBatch pods gets all of it, one of few pods leastWork of it.
	fullBatch = 2000
	leastWork = 0.2
)

// inProportion is the share of the work that a batch of so many pods is worth: fewer pods are a smaller bill.
func inProportion(pods int) float64 {
	return min(leastWork+(1-leastWork)*float64(pods)/fullBatch, 1)
}

// Options say how hard to look for a packing.
type Options struct {
	// Efforts are the multiples of the default work that are tried one after the other; the best result counts.
	Efforts []float64
	// Sketch says that a first fit is not worth its work.
	Sketch bool
	// Bound says that a lower bound is wanted as well, and values that prove it.
	Bound bool
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

// Solve packs the items.
func Solve(in *Problem, o Options) Result {
	p := newProblem(in)
	k := newPacker(p)
	k.wantsBound = o.Bound
	var ff []box
	left := p.counts()
	if !o.Sketch {
		ff, left = k.firstFit()
	}
	best := outcome{boxes: ff, left: left}
	out := Result{FirstFit: k.bill(ff)}
	if len(k.lanes) > 0 && len(k.all) > 0 {
		worth := inProportion(k.pods(p.counts()))
		for _, effort := range o.Efforts {
			found, bound := k.plan(effort * worth)
			if k.better(found, best) {
				best = found
			}
			if o.Bound && k.pods(best.left) == 0 {
				out.Bound = max(out.Bound, k.lowerBound(bound, k.bill(best.boxes)))
			}
		}
		out.Values = k.found
	}
	out.Boxes, out.Left = p.split(best.boxes), best.left
	return out
}

// Known is what is known of a problem before its bound is sought.
type Known struct {
	// Values are near what the item types are worth; nil for unknown.
	Values []float64
	// Bound is what was proven, Cost what some packing costs, in USD per hour.
	Bound, Cost float64
}

// LowerBound is what no bins for all items can cost less than, in USD per hour.
func LowerBound(in *Problem, known Known) float64 {
	k := newPacker(newProblem(in))
	if len(k.lanes) == 0 {
		return 0
	}
	k.hint, k.proof, k.wantsBound = known.Values, true, true
	r := k.newRows()
	return k.lowerBound(max(k.cover(r, 1).bound, known.Bound), known.Cost)
}

// split is the boxes with the candidates that their lanes stand for.
func (p *problem) split(boxes []box) []Box {
	var out []Box
	for _, b := range boxes {
		out = append(out, Box{Bin: p.lanes[b.lane].offer, Items: b.items})
	}
	return out
}

// plan packs the kinds, and returns what no packing of them can be cheaper than: rows tolerate more company than kinds,
// so what bounds them bounds the kinds. Where nodes hold many pods of many kinds, there are too many patterns to look at: if they
// leave much open, rents are tried as well.
func (k *packer) plan(share float64) (outcome, float64) {
	r := k.newRows()
	best, bound := k.planRows(r, share)
	if r.forRent || !k.wantsBound || k.bill(best.boxes) <= bound*(1+patternShare) {
		return best, bound
	}
	if r = k.rentedRows(fewRented); r != nil {
		other, proven := k.planRows(r, share)
		bound = max(bound, proven)
		if k.better(other, best) {
			best = other
		}
	}
	return best, bound
}

func (k *packer) planRows(r *rows, share float64) (outcome, float64) {
	c := k.cover(r, share)
	return k.solve(r, c, int(improveWork*share)), c.bound
}

// cover solves the covering program of the rows.
func (k *packer) cover(r *rows, share float64) covering {
	c := r.values(r.p.counts(), int(valuesWork*share))
	c.kinds = r.spread(k, r.p.counts(), c.rows)
	if !r.exact {
		c.kinds = k.repair(k.p.counts(), c.kinds)
		c.bound = k.boundOf(c.kinds)
	}
	k.found = c.kinds
	return c
}

// roomBeside is what the limits leave beside the boxes.
func (k *packer) roomBeside(boxes []box) [][]int64 {
	room := k.p.cloneRoom()
	for _, b := range boxes {
		k.p.spend(&k.lanes[b.lane], 1, room)
	}
	return room
}

// raised gives kinds that the best mix runs for nothing, in the slack of others, a small price: they have to be placed.
func raised(pi, prices []float64) []float64 {
	for i := range prices {
		prices[i] = max(pi[i], prices[i]/100)
	}
	return prices
}

// outcome is boxes and what they leave, by kind.
type outcome struct {
	boxes []box
	left  []int
}

// solve uses the whole part of the covering program's solution, composes the rest, and improves the result.
func (k *packer) solve(r *rows, s covering, work int) outcome {
	counts, room := r.p.counts(), k.p.cloneRoom()
	s.rows, s.kinds = raised(s.rows, r.prices()), raised(s.kinds, k.prices())
	var list []repeated
	for i, c := range s.columns {
		if c.lane < 0 {
			continue
		}
		pat := pattern{lane: c.lane, items: c.items}
		n := k.p.affordable(&k.lanes[c.lane], min(int(s.levels[i]+1e-6), copies(pat, counts)), room)
		if n == 0 {
			continue
		}
		list = append(list, repeated{pat, n})
		for _, it := range c.items {
			counts[it.Type] -= n * it.N
		}
		k.p.spend(&k.lanes[c.lane], n, room)
	}
	rc := r.newComposer(r.p.counts(), s.rows)
	rest, _ := rc.compose(counts, s.rows, room, 1e18)
	list = append(list, rest...)
	left := k.p.counts()
	var boxes []box
	for _, x := range list {
		boxes = append(boxes, r.realize(k, x.pattern, x.n, left)...)
	}
	room = k.roomBeside(boxes)
	kc := k.newComposer(k.p.counts(), s.kinds)
	rest, _ = kc.compose(left, s.kinds, room, 1e18)
	boxes = append(boxes, k.boxes(rest)...)
	room = k.roomBeside(boxes)
	often := looks
	if s.columns != nil {
		often = looksAtPatterns
	}
	if !r.exact {
		// Patterns of rows fit kinds badly: those of the kinds' own values may be better.
		others, own := k.p.counts(), k.p.cloneRoom()
		rest, _ = kc.compose(others, s.kinds, own, 1e18)
		if o := (outcome{k.boxes(rest), others}); k.better(o, outcome{boxes, left}) {
			boxes, left, room = o.boxes, o.left, own
		}
	}
	return outcome{kc.improve(boxes, s.kinds, room, effort{work, work / often, s.bound * goodEnough}), left}
}

// bill is USD per hour.
func (k *packer) bill(boxes []box) float64 {
	prices := make([]float64, len(boxes))
	for i := range boxes {
		prices[i] = k.lanes[boxes[i].lane].price
	}
	return sorted(prices)
}

// pods counts those that are left.
func (k *packer) pods(left []int) int {
	n := 0
	for ki, c := range left {
		n += c * k.kinds[ki].pods
	}
	return n
}

// better says that a places more pods than b, or as many for less, or for as much on fewer nodes.
func (k *packer) better(a, b outcome) bool {
	if x, y := k.pods(a.left), k.pods(b.left); x != y {
		return x < y
	}
	x, y := k.bill(a.boxes), k.bill(b.boxes)
	if x < y-1e-9 || x > y+1e-9 {
		return x < y
	}
	return len(a.boxes) < len(b.boxes)
}
