package binpack

import (
	"math"
	"slices"

	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
)

// greedyCover covers items bin by bin, each time with the content of the most value per dollar (greedy set cover). It is lazy: a bin
// type's value per dollar only falls while the stock does, so that the last one known is an upper bound, and most bin types are
// never looked at again (lazy greedy; Minoux 1978).
type greedyCover struct {
	*packer
	// top is an upper bound of each bin type's value per dollar for the whole stock.
	top []float64
	// most is the highest of them.
	most float64
	// scratch, by bin type: the bound of the value per dollar that is in force, that of the value of one bin, and what is known
	// of the best pattern.
	bound, ceiling []float64
	cached         []pattern
	state          []byte
	// queue is the bin types as a heap, the highest bound first, place where each is in it; solved are those whose best
	// pattern is known.
	queue, place, solved []int
	// want is scratch for the item types that are left.
	want []int
}

// What is known of a bin type's best pattern: nothing new, a fresh upper bound, one from the best weights of the
// dimensions, or the pattern itself. Each takes several times the work of the one before.
const (
	unknown = iota
	bounded
	tight
	known
)

// coverEffort says how hard a cover looks.
type coverEffort struct {
	effort
	// tolerance is how much less value per dollar than the best bound a pattern that is known already may have to be taken
	// for as good: 0.02 for 2%.
	tolerance float64
}

func newGreedyCover(k *packer, counts []int, values []float64) *greedyCover {
	n := len(k.bins)
	c := &greedyCover{
		packer: k, top: make([]float64, n), bound: make([]float64, n), ceiling: make([]float64, n), cached: make([]pattern, n),
		state: make([]byte, n), queue: make([]int, n), place: make([]int, n),
	}
	k.weigh(counts, values)
	for bi := range k.bins {
		c.top[bi] = perDollar(k.relaxed(bi, stock{k.all, counts, values}), k.bins[bi].price)
		c.most = max(c.most, c.top[bi], 1e-9)
	}
	return c
}

// cover covers the stock: each time the bin type and content with the most value per dollar, as often as the counts allow.
// It takes off the counts what it covers. It gives up, and returns false, once it has to pay limit or more, and returns false as well
// where items are left.
func (c *greedyCover) cover(s stock, room [][]int64, limit float64, how coverEffort) ([]repeated, bool) {
	value := 0.0
	want := c.want[:0]
	for _, ti := range s.types {
		if s.counts[ti] > 0 {
			want = append(want, ti)
			value += float64(s.counts[ti]) * s.values[ti]
		}
	}
	c.want, s.types = want, want
	c.enqueue(value)
	var out []repeated
	cost := 0.0
	for len(s.types) > 0 && !c.work.spent() {
		bi := c.pick(s, how)
		if bi < 0 {
			break
		}
		b, pat := &c.bins[bi], c.cached[bi]
		// What is left costs at least as much per value.
		if cost+value/max(c.bound[c.queue[0]], 1e-12) >= limit {
			return out, false
		}
		n := c.p.affordable(b, copies(pat.items, s.counts), room)
		if n == 0 {
			c.lower(bi, 0)
			continue
		}
		out = append(out, repeated{pattern{bin: bi, items: slices.Clone(pat.items)}, n})
		cost += float64(n) * b.price
		value -= float64(n) * pat.value
		for _, it := range pat.items {
			s.counts[it.Type] -= it.N * n
		}
		s.types = slices.DeleteFunc(s.types, func(ti int) bool { return s.counts[ti] == 0 })
		c.p.spend(b, n, room)
		// A pattern that can still be had is still the best of its bin type, and bounds stay bounds.
		c.solved = slices.DeleteFunc(c.solved, func(i int) bool {
			gone := copies(c.cached[i].items, s.counts) == 0
			if gone {
				c.state[i] = unknown
			}
			return gone
		})
	}
	return out, cost < limit && len(s.types) == 0
}

// partTypes is how many item types are covered together at most. A look at a bin type takes as long as there are item types, and there
// are as many looks as boxes: the work grows with the square. A box holds few item types, so that parts that resemble the whole are covered
// as well as the whole, and the search exchanges items between their boxes.
const partTypes = 300

// coverTolerance is how much less value per dollar than the best a pattern of a part may have: looks at bin types that are hardly better
// are most of the work, and the search that follows finds what they would.
const coverTolerance = 0.01

// inParts covers the stock, in parts of equal size that each have every n-th item type by size.
func (c *greedyCover) inParts(s stock, room [][]int64) []repeated {
	n := (len(s.types) + partTypes - 1) / partTypes
	parts, in := make([][]int, n), bitset.New(len(c.types))
	for _, ti := range s.types {
		in.Add(ti)
	}
	at := 0
	for _, ti := range c.bySize {
		if in.Has(ti) {
			parts[at%n] = append(parts[at%n], ti)
			at++
		}
	}
	var out []repeated
	for _, types := range parts {
		slices.Sort(types)
		part := s
		part.types = types
		list, _ := c.cover(part, room, math.Inf(1), coverEffort{effort: thorough(), tolerance: coverTolerance})
		out = append(out, list...)
	}
	return out
}

// pick returns the bin type with the most value per dollar, or one within the tolerance of it, its pattern in cached; -1 if
// none has any.
func (c *greedyCover) pick(s stock, how coverEffort) int {
	for {
		c.work.add(4)
		bi := c.queue[0]
		if !worthwhile(c.bound[bi]) {
			return -1
		}
		if best := c.bestKnown(); best >= 0 && c.bound[best] >= c.bound[bi]*(1-how.tolerance) {
			return best
		}
		price := c.bins[bi].price
		switch c.state[bi] {
		case unknown:
			c.lower(bi, perDollar(c.relaxed(bi, s), price))
			c.state[bi] = bounded
		case bounded:
			c.ceiling[bi] = c.upperBound(bi, s, 0, tightMoves)
			c.lower(bi, perDollar(c.ceiling[bi], price))
			c.state[bi] = tight
		default:
			c.cached[bi] = c.contents(bi, c.byDensity(bi, s), target{0, c.ceiling[bi]}, how.effort)
			c.lower(bi, perDollar(c.cached[bi].value, price))
			c.state[bi] = known
			c.solved = append(c.solved, bi)
		}
	}
}

// worthwhile reports whether a bound is more than nothing, and a number.
func worthwhile(bound float64) bool { return bound > 0 }

// bestKnown returns the bin type with the most value per dollar of those whose best pattern is known; -1 for none.
func (c *greedyCover) bestKnown() int {
	best := -1
	for _, bi := range c.solved {
		if worthwhile(c.bound[bi]) && (best < 0 || c.before(bi, best)) {
			best = bi
		}
	}
	return best
}

// before reports whether a has more value per dollar than b, as far as is known.
func (c *greedyCover) before(a, b int) bool {
	return c.bound[a] > c.bound[b] || c.bound[a] == c.bound[b] && a < b
}

// enqueue starts over with all bin types.
func (c *greedyCover) enqueue(value float64) {
	c.solved = c.solved[:0]
	for bi := range c.bins {
		c.bound[bi], c.state[bi] = min(c.top[bi]*1.0001, perDollar(value, c.bins[bi].price)), unknown
		c.queue[bi], c.place[bi] = bi, bi
	}
	for i := len(c.queue)/2 - 1; i >= 0; i-- {
		c.settle(i)
	}
	c.work.add(len(c.bins) / 4)
}

// lower brings the bin type's bound down, if it is lower.
func (c *greedyCover) lower(bi int, bound float64) {
	if bound < c.bound[bi] {
		c.bound[bi] = bound
		c.settle(c.place[bi])
	}
}

// settle sifts down a bin type whose bound came down. The heap knows each one's place, as container/heap does not.
func (c *greedyCover) settle(i int) {
	for {
		child := 2*i + 1
		if child >= len(c.queue) {
			return
		}
		if child+1 < len(c.queue) && c.before(c.queue[child+1], c.queue[child]) {
			child++
		}
		if !c.before(c.queue[child], c.queue[i]) {
			return
		}
		c.queue[i], c.queue[child] = c.queue[child], c.queue[i]
		c.place[c.queue[i]], c.place[c.queue[child]] = i, child
		i = child
	}
}

// economical returns the bin types that may hold at least half as much value per dollar as the best: a first fit of all bin types goes
// on to fill a bin as long as any is large enough, however expensive that is.
func (c *greedyCover) economical() bitset.Set {
	out := bitset.New(len(c.bins))
	for bi, top := range c.top {
		if top >= c.most/2 {
			out.Add(bi)
		}
	}
	return out
}

// boxes returns the bins of the patterns.
func boxes(p *problem, list []repeated) []box {
	var out []box
	for _, r := range list {
		b := box{bin: r.bin, items: r.items, sum: p.sumOf(r.items)}
		for range r.n {
			out = append(out, b)
		}
	}
	return out
}
