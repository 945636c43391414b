package plan

import (
	"cmp"
	"slices"
)

// firstFit is first-fit decreasing as provisioners do it: a node takes pod after pod, largest first, as long as any
// instance type is left that holds them all, and is then bought as the cheapest such type. Nodes are filled one after
// the other, which gives the same nodes as offering each pod to all of them in turn.
func (p *problem) firstFit() solution {
	s := solution{left: p.counts()}
	room := p.cloneRoom()
	order := p.bySize()
	stuck := make([]bool, len(p.units))
	for _, first := range order {
		for s.left[first] > 0 && !stuck[first] {
			n, ok := p.fillLargest(first, order, s.left, room)
			if !ok {
				stuck[first] = true
				break
			}
			for _, it := range n.items {
				s.left[it.unit] -= it.n
			}
			p.spend(n.offer, 1, room)
			s.nodes = append(s.nodes, n)
		}
	}
	return s
}

// bySize is the units, those first that take the largest share of the largest node.
func (p *problem) bySize() []int {
	largest := make(vec, len(p.m.dims))
	for oi := range p.m.offers {
		if p.may.has(oi) {
			for d, n := range p.m.offers[oi].free {
				largest[d] = max(largest[d], n)
			}
		}
	}
	size, out := make([]float64, len(p.units)), make([]int, len(p.units))
	for ui := range p.units {
		out[ui], size[ui] = ui, share(p.units[ui].need, largest)
	}
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(size[b], size[a]) })
	return out
}

// fillLargest opens a node for the unit and fills it from all units in order.
func (p *problem) fillLargest(first int, order, left []int, room [][]int64) (node, bool) {
	cands := p.candidates(first, room)
	if len(cands) == 0 {
		return node{}, false
	}
	n := node{sum: make(vec, len(p.m.dims))}
	pool := p.m.offers[cands[0]].pool
	// A stable sort would do, but the unit that opens the node is simply asked first.
	for _, ui := range append([]int{first}, order...) {
		if left[ui] == 0 || len(n.items) > 0 && ui == first {
			continue
		}
		k := min(left[ui], p.more(n.items, ui, pool))
		if k <= 0 {
			continue
		}
		k, cands = p.narrow(cands, n.sum, ui, k)
		if k > 0 {
			n.items = append(n.items, item{ui, k})
			n.sum.add(p.units[ui].need, int64(k))
		}
	}
	n.offer = p.cheapest(cands)
	return n, len(n.items) > 0
}

// candidates are the affordable offers of the first pool that has any for the unit.
func (p *problem) candidates(ui int, room [][]int64) []int {
	for pi := range p.m.pools {
		var out []int
		for oi := p.m.pools[pi].offers[0]; oi < p.m.pools[pi].offers[1]; oi++ {
			if p.may.has(oi) && p.units[ui].fits.has(oi) && p.affordable(oi, room) {
				out = append(out, oi)
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	return nil
}

// narrow finds the most units, up to k, that any candidate holds beside sum, and the candidates that do.
func (p *problem) narrow(cands []int, sum vec, ui, k int) (int, []int) {
	need, fits := p.units[ui].need, p.units[ui].fits
	most := 0
	holds := make([]int, len(cands))
	for i, oi := range cands {
		if fits.has(oi) {
			holds[i] = min(k, timesBeside(p.m.offers[oi].free, sum, need))
			most = max(most, holds[i])
		}
	}
	if most == 0 {
		return 0, cands
	}
	var out []int
	for i, oi := range cands {
		if holds[i] == most {
			out = append(out, oi)
		}
	}
	return most, out
}

// timesBeside is how often need fits into free beside sum.
func timesBeside(free, sum, need vec) int {
	best := int64(1) << 31
	for d, n := range need {
		if n > 0 {
			best = min(best, max(free[d]-sum[d], 0)/n)
		}
	}
	return int(best)
}
