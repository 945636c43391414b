package plan

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
	// scratch, by lane: the bound in force and what is known of the best pattern.
	bound  []float64
	cached []pattern
	state  []byte
	want   []int
}

// What is known of a lane's best pattern: nothing new, a fresh upper bound, or the pattern itself.
const (
	stale = iota
	bounded
	known
)

func (k *packer) newComposer(counts []int, pi []float64) *composer {
	c := &composer{packer: k, top: make([]float64, len(k.lanes)), bound: make([]float64, len(k.lanes)), cached: make([]pattern, len(k.lanes)), state: make([]byte, len(k.lanes))}
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
	// A lane's value per dollar only falls while the counts fall: the last one is an upper bound, and most lanes are never
	// looked at again.
	for li := range c.lanes {
		c.bound[li], c.state[li] = min(c.top[li]*1.0001, perDollar(value, c.lanes[li].price)), stale
	}
	c.work += len(c.lanes) / 4
	var out []repeated
	cost := 0.0
	for len(c.want) > 0 {
		li := c.pick(counts, pi)
		if li < 0 {
			break
		}
		l, pat := &c.lanes[li], c.cached[li]
		// What is left costs at least as much per value.
		if cost+value/max(c.bound[li], 1e-12) >= limit {
			return out, false
		}
		n := c.p.affordable(l, copies(pat, counts), room)
		if n == 0 {
			c.bound[li] = 0
			continue
		}
		out = append(out, repeated{pattern{lane: li, items: slices.Clone(pat.items)}, n})
		cost += float64(n) * l.price
		value -= float64(n) * pat.value
		for _, it := range pat.items {
			counts[it.unit] -= it.n * n
		}
		c.want = slices.DeleteFunc(c.want, func(ki int) bool { return counts[ki] == 0 })
		c.p.spend(l, n, room)
		// A pattern that can still be had is still the best of its lane, and bounds stay bounds.
		for i := range c.state {
			if c.state[i] == known && copies(c.cached[i], counts) == 0 {
				c.state[i] = stale
			}
		}
	}
	return out, cost < limit
}

// pick is the lane with the most value per dollar, its pattern in cached; -1 if none has any.
func (c *composer) pick(counts []int, pi []float64) int {
	for {
		li := -1
		for i, b := range c.bound {
			if b > 0 && (li < 0 || b > c.bound[li]*(1+1e-12)) {
				li = i
			}
		}
		c.work += len(c.bound) / 8
		switch {
		case li < 0 || c.state[li] == known:
			return li
		case c.state[li] == stale:
			c.bound[li] = min(c.bound[li], perDollar(c.relaxed(li, c.want, counts, pi, c.weights(li)), c.lanes[li].price))
			c.state[li] = bounded
		default:
			c.cached[li] = c.best(li, c.want, counts, pi, 0)
			c.bound[li] = perDollar(c.cached[li].value, c.lanes[li].price)
			c.state[li] = known
		}
	}
}

// perDollar divides by the price; what is free is as good as nearly free.
func perDollar(value, price float64) float64 { return value / max(price, 1e-6) }

// copies is how often the pattern can be taken out of the counts.
func copies(pat pattern, left []int) int {
	n := 0
	for i, it := range pat.items {
		if c := left[it.unit] / it.n; i == 0 || c < n {
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

func (k *packer) sumOf(items []item) vec {
	sum := make(vec, len(k.p.asked))
	for _, it := range items {
		sum.add(k.kinds[it.unit].need, int64(it.n))
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
			cost := max(l.price, 1e-6) * max(share(k.kinds[ki].need, l.free), 1e-9)
			if pi[ki] == 0 || cost < pi[ki] {
				pi[ki] = cost
			}
		}
	}
	return pi
}
