package binpack

import "slices"

// repeated is a pattern that is used several times.
type repeated struct {
	pattern
	n int
}

// composer covers counts node by node.
type composer struct {
	*packer
	// top is an upper bound of each lane's value per dollar at the prices in use.
	top []float64
	// tolerance is how much less value per dollar than the best lane may have a pattern that is known already is taken for as good:
	// 0.02 for 2 %.
	tolerance float64
	// scratch, by lane: the bound of the value per dollar that is in force, that of the value of one node, and what is known of the
	// best pattern.
	bound, ceiling []float64
	cached         []pattern
	state          []byte
	// queue is the lanes as a heap, the highest bound first, place where each is in it; sure are those whose best pattern is known.
	queue, place, sure []int
	want               []int
}

// What is known of a lane's best pattern: nothing new, a fresh upper bound, one from the best weights of the resources, or the
// pattern itself. Each takes several times the work of the one before.
const (
	stale = iota
	bounded
	tight
	known
)

// tightMoves is how often a bound moves the weights.
const tightMoves = 6

func (k *packer) newComposer(counts []int, pi []float64) *composer {
	n := len(k.lanes)
	c := &composer{
		packer: k, top: make([]float64, n), bound: make([]float64, n), ceiling: make([]float64, n), cached: make([]pattern, n),
		state: make([]byte, n), queue: make([]int, n), place: make([]int, n),
	}
	k.weigh(counts, pi)
	for li := range k.lanes {
		c.top[li] = perDollar(k.relaxed(li, k.all, counts, pi, k.weights(li)), k.lanes[li].price)
	}
	return c
}

// compose covers the counts node by node: each time the lane and content with the most value per dollar, as often as the
// counts allow. It takes off the counts what it covers, and gives up once it has to pay limit or more.
func (c *composer) compose(counts []int, pi []float64, room [][]int64, limit float64) ([]repeated, bool) {
	c.want = c.want[:0]
	value := 0.0
	for _, ki := range c.all {
		if counts[ki] > 0 {
			c.want = append(c.want, ki)
			value += float64(counts[ki]) * pi[ki]
		}
	}
	return c.composeWanted(counts, pi, room, value, limit)
}

func (c *composer) composeWanted(counts []int, pi []float64, room [][]int64, value, limit float64) ([]repeated, bool) {
	c.enqueue(value)
	var out []repeated
	cost := 0.0
	for len(c.want) > 0 {
		li := c.pick(counts, pi)
		if li < 0 {
			break
		}
		l, pat := &c.lanes[li], c.cached[li]
		// What is left costs at least as much per value.
		if cost+value/max(c.bound[c.queue[0]], 1e-12) >= limit {
			return out, false
		}
		n := c.p.affordable(l, copies(pat, counts), room)
		if n == 0 {
			c.lower(li, 0)
			continue
		}
		out = append(out, repeated{pattern{lane: li, items: slices.Clone(pat.items)}, n})
		cost += float64(n) * l.price
		value -= float64(n) * pat.value
		for _, it := range pat.items {
			counts[it.Type] -= it.N * n
		}
		c.want = slices.DeleteFunc(c.want, func(ki int) bool { return counts[ki] == 0 })
		c.p.spend(l, n, room)
		// A pattern that can still be had is still the best of its lane, and bounds stay bounds.
		c.sure = slices.DeleteFunc(c.sure, func(i int) bool {
			gone := copies(c.cached[i], counts) == 0
			if gone {
				c.state[i] = stale
			}
			return gone
		})
	}
	return out, cost < limit
}

// pick is the lane with the most value per dollar, or one within the tolerance of it, its pattern in cached; -1 if none has any.
func (c *composer) pick(counts []int, pi []float64) int {
	for {
		c.work += 4
		li := c.queue[0]
		if !worthwhile(c.bound[li]) {
			return -1
		}
		if best := c.surest(); best >= 0 && c.bound[best] >= c.bound[li]*(1-c.tolerance) {
			return best
		}
		price := c.lanes[li].price
		switch c.state[li] {
		case stale:
			c.lower(li, perDollar(c.relaxed(li, c.want, counts, pi, c.weights(li)), price))
			c.state[li] = bounded
		case bounded:
			c.moves = tightMoves
			c.ceiling[li] = c.packer.most(li, c.want, counts, pi, 0)
			c.lower(li, perDollar(c.ceiling[li], price))
			c.state[li] = tight
		default:
			c.cached[li] = c.contents(li, c.wares(li, c.want, counts, pi, c.weights(li)), 0, c.ceiling[li])
			c.lower(li, perDollar(c.cached[li].value, price))
			c.state[li] = known
			c.sure = append(c.sure, li)
		}
	}
}

// worthwhile says that a lane has any value: more than nothing, and a number.
func worthwhile(bound float64) bool { return bound > 0 }

// surest is the one with the most value per dollar of the lanes whose best pattern is known; -1 for none.
func (c *composer) surest() int {
	best := -1
	for _, li := range c.sure {
		if worthwhile(c.bound[li]) && (best < 0 || c.before(li, best)) {
			best = li
		}
	}
	return best
}

// before says that a has more value per dollar than b, as far as is known.
func (c *composer) before(a, b int) bool {
	return c.bound[a] > c.bound[b] || c.bound[a] == c.bound[b] && a < b
}

// enqueue starts over with all lanes. A lane's value per dollar only falls while the counts fall: the last one is an upper bound, and
// most lanes are never looked at again.
func (c *composer) enqueue(value float64) {
	c.sure = c.sure[:0]
	for li := range c.lanes {
		c.bound[li], c.state[li] = min(c.top[li]*1.0001, perDollar(value, c.lanes[li].price)), stale
		c.queue[li], c.place[li] = li, li
	}
	for i := len(c.queue)/2 - 1; i >= 0; i-- {
		c.settle(i)
	}
	c.work += len(c.lanes) / 4
}

// lower brings the lane's bound down, if it is lower.
func (c *composer) lower(li int, bound float64) {
	if bound < c.bound[li] {
		c.bound[li] = bound
		c.settle(c.place[li])
	}
}

// settle moves a lane whose bound came down to its place in the heap.
func (c *composer) settle(i int) {
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

// perDollar divides by the price.
func perDollar(value, price float64) float64 { return value / charged(price) }

// charged is the price, or next to nothing where that is nothing.
func charged(price float64) float64 { return max(price, 1e-6) }

// copies is how often the pattern can be taken out of the counts.
func copies(pat pattern, left []int) int {
	n := 0
	for i, it := range pat.items {
		if c := left[it.Type] / it.N; i == 0 || c < n {
			n = c
		}
	}
	return n
}

// boxes are the nodes of the patterns.
func (k *packer) boxes(list []repeated) []box {
	var out []box
	for _, r := range list {
		b := box{lane: r.lane, items: r.items, sum: k.sumOf(r.items)}
		for range r.n {
			out = append(out, b)
		}
	}
	return out
}

func (k *packer) sumOf(items []Item) Vec {
	sum := make(Vec, k.p.dims)
	for _, it := range items {
		sum.add(k.kinds[it.Type].need, int64(it.N))
	}
	return sum
}

// prices are first values of the kinds: what each costs as a share of the node on which it is cheapest.
func (k *packer) prices() []float64 {
	pi := make([]float64, len(k.kinds))
	for li := range k.lanes {
		l, held := &k.lanes[li], k.held(li)
		for _, ki := range k.all {
			if held[ki] == 0 {
				continue
			}
			cost := charged(l.price) * max(share(k.kinds[ki].need, l.free), 1e-9)
			if pi[ki] == 0 || cost < pi[ki] {
				pi[ki] = cost
			}
		}
	}
	return pi
}
