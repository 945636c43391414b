package plan

import (
	"cmp"
	"slices"
)

// improve makes a solution cheaper by local search, until nothing helps or the budget of work is used up: each node is
// bought as the cheapest offer that holds its content, and groups of the most wasteful nodes are taken apart, their
// units put into free room of the others and the rest packed anew.
func (k *packer) improve(s solution, pi []float64, budget int) solution {
	until := k.work + budget
	room := k.p.cloneRoom()
	for _, n := range s.nodes {
		k.p.spend(n.offer, 1, room)
	}
	k.shrink(s.nodes, room)
	for improved := true; improved && k.work < until; {
		improved = false
		order := k.byWaste(s.nodes, pi)
		for size := 1; size <= 3 && !improved; size++ {
			for i := 0; i+size <= len(order) && k.work < until && !improved; i++ {
				// The most wasteful node of the group, and those that follow it, or its opposites in size.
				improved = k.regroup(&s, order[i:i+size], pi, room)
			}
		}
	}
	return s
}

// shrink buys each node as the cheapest lane that holds it.
func (k *packer) shrink(nodes []node, room [][]int64) {
	for i := range nodes {
		n := &nodes[i]
		for li := range k.lanes {
			l := &k.lanes[li]
			if l.price >= k.p.m.offers[n.offer].Price-1e-12 {
				break // Lanes are sorted by price.
			}
			if k.holds(l, n) {
				k.p.spend(n.offer, -1, room)
				if k.affordable(l, 1, room) == 1 {
					n.offer = l.offer
				}
				k.p.spend(n.offer, 1, room)
				if n.offer == l.offer {
					break
				}
			}
		}
	}
}

// holds says that a node of the lane could have the content.
func (k *packer) holds(l *lane, n *node) bool {
	k.work++
	if !l.free.holds(n.sum) {
		return false
	}
	for i, it := range n.items {
		if !l.takes.has(it.unit) {
			return false
		}
		if len(k.p.units[it.unit].demands[l.pool]) > 0 && k.p.more(n.items[:i], it.unit, l.pool) < it.n {
			return false
		}
	}
	return true
}

// byWaste is the nodes in the order of what they cost beyond the value of their content.
func (k *packer) byWaste(nodes []node, pi []float64) []int {
	waste, out := make([]float64, len(nodes)), make([]int, len(nodes))
	for i := range nodes {
		out[i] = i
		waste[i] = k.p.m.offers[nodes[i].offer].Price
		for _, it := range nodes[i].items {
			waste[i] -= float64(it.n) * pi[it.unit]
		}
	}
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(waste[b], waste[a]) })
	return out
}

// regroup takes the victims apart and keeps the result if it is cheaper, or as cheap with fewer nodes.
func (k *packer) regroup(s *solution, victims []int, pi []float64, room [][]int64) bool {
	counts := make([]int, len(k.p.units))
	was := 0.0
	try := make([][]int64, len(room))
	for i := range room {
		try[i] = slices.Clone(room[i])
	}
	for _, v := range victims {
		was += k.p.m.offers[s.nodes[v].offer].Price
		k.p.spend(s.nodes[v].offer, -1, try)
		for _, it := range s.nodes[v].items {
			counts[it.unit] += it.n
		}
	}
	var keep []node
	for i := range s.nodes {
		if !slices.Contains(victims, i) {
			keep = append(keep, s.nodes[i])
		}
	}
	changed := k.insert(keep, counts)
	fresh, ok := k.recreate(counts, pi, try, was)
	if !ok {
		return false
	}
	cost := k.p.cost(fresh)
	if cost > was-1e-9 && (cost > was+1e-9 || len(fresh) >= len(victims)) {
		return false
	}
	for i, n := range changed {
		keep[i] = n
	}
	s.nodes = append(keep, fresh...)
	for i := range room {
		room[i] = try[i]
	}
	return true
}

// insert puts what it can of the counts into free room of the nodes, largest units first, and takes it off the counts.
// It returns the nodes that change, by index.
func (k *packer) insert(nodes []node, counts []int) map[int]node {
	changed := map[int]node{}
	for _, ui := range k.bySize {
		for i := 0; i < len(nodes) && counts[ui] > 0; i++ {
			n, ok := changed[i]
			if !ok {
				n = nodes[i]
			}
			k.work++
			o := &k.p.m.offers[n.offer]
			if !k.p.units[ui].fits.has(n.offer) {
				continue
			}
			c := min(counts[ui], timesBeside(o.free, n.sum, k.p.units[ui].need))
			if c == 0 {
				continue
			}
			if c = min(c, k.p.more(n.items, ui, o.pool)); c == 0 {
				continue
			}
			n.items, n.sum = addItem(n.items, ui, c), n.sum.clone()
			n.sum.add(k.p.units[ui].need, int64(c))
			counts[ui] -= c
			changed[i] = n
		}
	}
	return changed
}

// addItem returns a new list with n more units.
func addItem(items []item, ui, n int) []item {
	out := slices.Clone(items)
	for i := range out {
		if out[i].unit == ui {
			out[i].n += n
			return out
		}
	}
	return append(out, item{ui, n})
}

// recreate packs the counts for less than most, on one node or several; false if it cannot.
func (k *packer) recreate(counts []int, pi []float64, room [][]int64, most float64) ([]node, bool) {
	if !slices.ContainsFunc(counts, func(n int) bool { return n > 0 }) {
		return nil, true
	}
	all := node{sum: make(vec, len(k.p.m.dims))}
	alone := true
	for ui, n := range counts {
		if n > 0 {
			alone = alone && k.p.more(all.items, ui, 0) >= n
			all.items = append(all.items, item{ui, n})
			all.sum.add(k.p.units[ui].need, int64(n))
		}
	}
	for li := 0; alone && li < len(k.lanes) && k.lanes[li].price < most+1e-9; li++ {
		if l := &k.lanes[li]; k.holds(l, &all) && k.affordable(l, 1, room) == 1 {
			all.offer = l.offer
			k.p.spend(l.offer, 1, room)
			return []node{all}, true
		}
	}
	out, left := k.compose(counts, pi, room)
	return out, !slices.ContainsFunc(left, func(n int) bool { return n > 0 })
}
