package plan

import "slices"

// What is known of a lane's pattern while it is not computed: nothing, or an upper bound of its value.
const (
	unknown = -1
	bounded = -2
)

// compose covers the counts node by node: each time the lane and content with the most value per dollar, as often as the
// counts allow. It returns the nodes and what no lane takes.
func (k *packer) compose(counts []int, pi []float64, room [][]int64) ([]node, []int) {
	left := slices.Clone(counts)
	var out []node
	// A lane's value per dollar only falls while the counts fall: the last one is an upper bound, and most lanes are never
	// looked at again.
	bound := make([]float64, len(k.lanes))
	cached := make([]pattern, len(k.lanes))
	for li := range k.lanes {
		bound[li], cached[li].lane = k.ceiling(li, left, pi), unknown
	}
	for {
		li := k.pick(bound, cached, left, pi)
		if li < 0 {
			return out, left
		}
		l, pat := &k.lanes[li], cached[li]
		n := k.copies(pat, left)
		n = k.affordable(l, n, room)
		if n == 0 {
			bound[li] = 0
			continue
		}
		for range n {
			out = append(out, k.node(pat))
		}
		for _, it := range pat.items {
			left[it.unit] -= it.n * n
		}
		k.p.spend(l.offer, n, room)
		for i := range cached {
			cached[i].lane = unknown
		}
	}
}

// pick is the lane with the most value per dollar, its pattern in cached; -1 if none has any.
func (k *packer) pick(bound []float64, cached []pattern, left []int, pi []float64) int {
	for {
		li := -1
		for i, b := range bound {
			if b > 0 && (li < 0 || b > bound[li]*(1+1e-12)) {
				li = i
			}
		}
		switch {
		case li < 0 || cached[li].lane == li:
			return li
		case cached[li].lane == unknown:
			bound[li] = min(bound[li], perDollar(k.relaxed(li, left, pi, k.by[li]), k.lanes[li].price))
			cached[li].lane = bounded
		default:
			cached[li] = k.best(li, left, pi, 0)
			bound[li] = perDollar(cached[li].value, k.lanes[li].price)
		}
	}
}

// ceiling is an upper bound of the lane's value per dollar.
func (k *packer) ceiling(li int, counts []int, pi []float64) float64 {
	value := 0.0
	for _, ui := range k.lanes[li].units {
		value += float64(counts[ui]) * pi[ui]
	}
	return perDollar(value, k.lanes[li].price)
}

// perDollar divides by the price; what is free is as good as nearly free.
func perDollar(value, price float64) float64 { return value / max(price, 1e-6) }

// copies is how often the pattern can be taken out of the counts.
func (k *packer) copies(pat pattern, left []int) int {
	n := 0
	for i, it := range pat.items {
		if c := left[it.unit] / it.n; i == 0 || c < n {
			n = c
		}
	}
	return n
}

// affordable is how many of n nodes of the lane the limits leave room for.
func (k *packer) affordable(l *lane, n int, room [][]int64) int {
	for i, used := range k.p.m.types[k.p.m.offers[l.offer].shape].usage {
		if used > 0 {
			n = min(n, int(max(room[l.pool][i], 0)/used))
		}
	}
	return n
}

func (k *packer) node(pat pattern) node {
	n := node{offer: k.lanes[pat.lane].offer, items: slices.Clone(pat.items), sum: make(vec, len(k.p.m.dims))}
	for _, it := range n.items {
		n.sum.add(k.p.units[it.unit].need, int64(it.n))
	}
	return n
}

// prices are first values of the units: what each costs as a share of the node on which it is cheapest.
func (k *packer) prices() []float64 {
	pi := make([]float64, len(k.p.units))
	for li := range k.lanes {
		l := &k.lanes[li]
		for _, ui := range l.units {
			u := &k.p.units[ui]
			cost := max(l.price, 1e-6) * max(share(u.need, l.free), 1e-9)
			if pi[ui] == 0 || cost < pi[ui] {
				pi[ui] = cost
			}
		}
	}
	return pi
}
