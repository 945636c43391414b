package binpack

// firstFit is first-fit decreasing as provisioners do it: a node takes pod after pod, largest first, as long as any
// instance type is left that holds them all, and is then bought as the cheapest such type. Nodes are filled one after
// the other, which gives the same nodes as offering each pod to all of them in turn. It returns what is left.
func (k *packer) firstFit() ([]box, []int) {
	left, room := k.p.counts(), k.p.cloneRoom()
	order := k.bySize
	stuck := make([]bool, len(k.kinds))
	var out []box
	for _, first := range order {
		for left[first] > 0 && !stuck[first] {
			b, ok := k.fillLargest(first, order, left, room)
			if !ok {
				stuck[first] = true
				break
			}
			n := k.p.affordable(&k.lanes[b.lane], copies(pattern{items: b.items}, left), room)
			for _, it := range b.items {
				left[it.Type] -= it.N * n
			}
			k.p.spend(&k.lanes[b.lane], n, room)
			for range n {
				out = append(out, b)
			}
		}
	}
	return out, left
}

// fillLargest opens a node for the kind and fills it from all kinds in order.
func (k *packer) fillLargest(first int, order, left []int, room [][]int64) (box, bool) {
	cands := k.candidates(first, room)
	if len(cands) == 0 {
		return box{}, false
	}
	b := box{sum: make(Vec, k.p.dims)}
	pool := k.lanes[cands[0]].pool
	put := func(ki int) {
		n := left[ki]
		if !k.kinds[ki].free() {
			n = min(n, k.p.more(b.items, ki, pool))
		}
		if n <= 0 {
			return
		}
		if n, cands = k.narrow(cands, b.sum, ki, n); n > 0 {
			b.items = append(b.items, Item{ki, n})
			b.sum.add(k.kinds[ki].need, int64(n))
		}
	}
	put(first)
	for _, ki := range order {
		if left[ki] > 0 && ki != first {
			put(ki)
		}
	}
	b.lane = cands[0] // Lanes are sorted by price.
	return b, len(b.items) > 0
}

// candidates are the affordable lanes of the first pool that has any for the kind.
func (k *packer) candidates(ki int, room [][]int64) []int {
	for pi := range k.p.room {
		var out []int
		for li := range k.lanes {
			if l := &k.lanes[li]; l.pool == pi && k.kinds[ki].takes.has(li) && k.p.affordable(l, 1, room) == 1 {
				out = append(out, li)
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	return nil
}

// narrow finds the most of a kind, up to n, that any candidate holds beside sum, and the candidates that do.
func (k *packer) narrow(cands []int, sum Vec, ki, n int) (int, []int) {
	kd := &k.kinds[ki]
	most := 0
	holds := make([]int, len(cands))
	for i, li := range cands {
		if kd.takes.has(li) {
			holds[i] = min(n, timesBeside(k.lanes[li].free, sum, kd.need))
			most = max(most, holds[i])
		}
	}
	if most == 0 {
		return 0, cands
	}
	var out []int
	for i, li := range cands {
		if holds[i] == most {
			out = append(out, li)
		}
	}
	return most, out
}

// timesBeside is how often need fits into free beside sum.
func timesBeside(free, sum, need Vec) int {
	best := int64(1) << 31
	for d, n := range need {
		if n > 0 {
			best = min(best, max(free[d]-sum[d], 0)/n)
		}
	}
	return int(best)
}
