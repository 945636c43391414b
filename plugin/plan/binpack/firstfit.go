package binpack

// firstFit is first fit decreasing as provisioners do it: a bin takes item after item, largest first, as long as any bin
// type is left that holds them all, and is then bought as the cheapest such type. Bins are filled one after the other,
// which gives the same bins as offering each item to all of them in turn.
func firstFit(k *packer) outcome {
	left, room := k.p.counts(), k.p.cloneRoom()
	order := k.bySize
	stuck := make([]bool, len(k.types))
	var out []box
	for _, first := range order {
		for left[first] > 0 && !stuck[first] {
			b, ok := fillLargest(k, first, order, left, room)
			if !ok {
				stuck[first] = true
				break
			}
			n := k.p.affordable(&k.bins[b.bin], copies(b.items, left), room)
			for _, it := range b.items {
				left[it.Type] -= it.N * n
			}
			k.p.spend(&k.bins[b.bin], n, room)
			for range n {
				out = append(out, b)
			}
		}
	}
	return outcome{out, left}
}

// fillLargest opens a bin for the item type and fills it from all item types in order.
func fillLargest(k *packer, first int, order, left []int, room [][]int64) (box, bool) {
	cands := candidates(k, first, room)
	if len(cands) == 0 {
		return box{}, false
	}
	b := box{sum: make(Vec, k.p.dims)}
	pool := k.bins[cands[0]].pool
	put := func(ti int) {
		n := left[ti]
		if !k.types[ti].free() {
			n = min(n, k.p.more(b.items, ti, pool))
		}
		if n <= 0 {
			return
		}
		if n, cands = narrow(k, cands, b.sum, ti, n); n > 0 {
			b.items = append(b.items, Item{ti, n})
			b.sum.add(k.types[ti].need, int64(n))
		}
	}
	put(first)
	for _, ti := range order {
		if left[ti] > 0 && ti != first {
			put(ti)
		}
	}
	b.bin = cands[0] // sorted by price
	return b, len(b.items) > 0
}

// candidates returns the affordable bin types of the first pool that has any for the item type.
func candidates(k *packer, ti int, room [][]int64) []int {
	for pi := range k.p.room {
		var out []int
		for bi := range k.bins {
			if l := &k.bins[bi]; l.pool == pi && k.types[ti].takes.has(bi) && k.p.affordable(l, 1, room) == 1 {
				out = append(out, bi)
			}
		}
		if len(out) > 0 {
			return out
		}
	}
	return nil
}

// narrow returns the most of an item type, up to n, that any candidate holds beside sum, and the candidates that do.
func narrow(k *packer, cands []int, sum Vec, ti, n int) (int, []int) {
	t := &k.types[ti]
	most := 0
	holds := make([]int, len(cands))
	for i, bi := range cands {
		if t.takes.has(bi) {
			holds[i] = min(n, timesBeside(k.bins[bi].free, sum, t.need))
			most = max(most, holds[i])
		}
	}
	if most == 0 {
		return 0, cands
	}
	var out []int
	for i, bi := range cands {
		if holds[i] == most {
			out = append(out, bi)
		}
	}
	return most, out
}

// timesBeside returns how often need fits into free beside sum.
func timesBeside(free, sum, need Vec) int {
	best := int64(1) << 31
	for d, n := range need {
		if n > 0 {
			best = min(best, max(free[d]-sum[d], 0)/n)
		}
	}
	return int(best)
}
