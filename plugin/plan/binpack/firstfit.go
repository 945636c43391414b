package binpack

import (
	"slices"

	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
)

// firstFit is first fit decreasing as provisioners do it: a bin takes item after item, largest first, as long as any bin
// type is left that holds them all, and is then bought as the cheapest such type. Bins are filled one after the other,
// which gives the same bins as offering each item to all of them in turn. It packs what is left into the room of limits, and takes it
// off both, onto the bin types of only, nil for all. It ends early, with items left, only where the context of the question has ended.
func firstFit(k *packer, left []int, room [][]int64, only bitset.Set) outcome {
	f := newFitter(k, left, room)
	f.only = only
	for len(f.order) > 0 && !k.work.budget.Cancelled() {
		first := f.order[0]
		if !f.fill(first) {
			f.order = f.order[1:] // No bin is left for it.
			continue
		}
		b := box{bin: f.cands[0], items: slices.Clone(f.items), sum: f.sum.clone()} // The cheapest: they are sorted by price.
		n := k.p.affordable(&k.bins[b.bin], copies(b.items, f.left), f.room)
		for _, it := range b.items {
			f.left[it.Type] -= it.N * n
		}
		k.p.spend(&k.bins[b.bin], n, f.room)
		for range n {
			f.out = append(f.out, b)
		}
		f.order = slices.DeleteFunc(f.order, func(ti int) bool { return f.left[ti] == 0 })
	}
	return outcome{f.out, f.left}
}

// fitter fills one bin at a time. Its cost is near linear in the items: most item types are placed or passed over by the
// largest and the least that the candidates have free, without a look at each candidate.
type fitter struct {
	p    *problem
	out  []box
	left []int
	room [][]int64
	// only has the bin types that may be used; nil for all.
	only bitset.Set
	// order is the item types with items left, the largest first.
	order []int
	// pools are the bin types of each pool, the cheapest first.
	pools [][]int
	// items is what the current bin holds, sum what that takes.
	items []Item
	sum   Vec
	// cands are the bin types that hold it, set the same as a set; most and least are what they have of each dimension.
	cands       []int
	set         bitset.Set
	most, least Vec
	// smallest is the least that any item type needs of each dimension.
	smallest Vec
	// holds is scratch, by candidate.
	holds []int
}

func newFitter(k *packer, left []int, room [][]int64) *fitter {
	f := &fitter{
		p: k.p, left: left, room: room, order: slices.Clone(k.bySize), pools: make([][]int, len(k.p.room)),
		sum: make(Vec, k.p.dims), set: bitset.New(len(k.bins)), most: make(Vec, k.p.dims), least: make(Vec, k.p.dims),
	}
	f.order = slices.DeleteFunc(f.order, func(ti int) bool { return left[ti] == 0 })
	for bi := range k.bins {
		f.pools[k.bins[bi].pool] = append(f.pools[k.bins[bi].pool], bi)
	}
	for i, ti := range k.all {
		need := k.types[ti].need
		if i == 0 {
			f.smallest = need.clone()
		}
		for d, n := range need {
			f.smallest[d] = min(f.smallest[d], n)
		}
	}
	return f
}

// fill opens a bin for the item type and fills it from all item types in order. It returns false where no bin takes any.
func (f *fitter) fill(first int) bool {
	f.items = f.items[:0]
	clear(f.sum)
	if !f.open(first) {
		return false
	}
	f.put(first)
	for _, ti := range f.order {
		if ti == first {
			continue
		}
		if f.full() {
			break
		}
		f.put(ti)
	}
	return len(f.items) > 0
}

// open makes the affordable bin types of the first pool that has any for the item type the candidates. It returns false for none.
func (f *fitter) open(ti int) bool {
	for _, bins := range f.pools {
		f.cands = f.cands[:0]
		for _, bi := range bins {
			if (f.only == nil || f.only.Has(bi)) && f.p.types[ti].takes.Has(bi) && f.p.affordable(&f.p.bins[bi], 1, f.room) == 1 {
				f.cands = append(f.cands, bi)
			}
		}
		if len(f.cands) > 0 {
			f.measure()
			return true
		}
	}
	return false
}

// measure finds what the candidates have.
func (f *fitter) measure() {
	clear(f.set)
	for i, bi := range f.cands {
		f.set.Add(bi)
		for d, n := range f.p.bins[bi].free {
			if i == 0 {
				f.most[d], f.least[d] = n, n
			}
			f.most[d], f.least[d] = max(f.most[d], n), min(f.least[d], n)
		}
	}
}

// full reports whether no candidate has room for any item type.
func (f *fitter) full() bool {
	for d, n := range f.smallest {
		if n > 0 && f.most[d]-f.sum[d] < n {
			return true
		}
	}
	return false
}

// put puts as many of the item type into the bin as any candidate holds, and keeps the candidates that do.
func (f *fitter) put(ti int) {
	t := &f.p.types[ti]
	n := min(f.left[ti], timesBeside(f.most, f.sum, t.need))
	if n > 0 && !t.free() {
		n = min(n, f.p.more(f.items, ti, f.p.bins[f.cands[0]].pool))
	}
	if n <= 0 {
		return
	}
	if timesBeside(f.least, f.sum, t.need) < n || !f.set.Within(t.takes) {
		n = f.narrow(t, n)
	}
	if n > 0 {
		f.items = append(f.items, Item{ti, n})
		f.sum.add(t.need, int64(n))
	}
}

// narrow returns the most of an item type, up to n, that any candidate holds, and keeps the candidates that do.
func (f *fitter) narrow(t *itemType, n int) int {
	most := 0
	f.holds = f.holds[:0]
	for _, bi := range f.cands {
		holds := 0
		if t.takes.Has(bi) {
			holds = min(n, timesBeside(f.p.bins[bi].free, f.sum, t.need))
		}
		f.holds = append(f.holds, holds)
		most = max(most, holds)
	}
	if most == 0 {
		return 0
	}
	kept := f.cands[:0]
	for i, bi := range f.cands {
		if f.holds[i] == most {
			kept = append(kept, bi)
		}
	}
	if len(kept) < len(f.holds) {
		f.cands = kept
		f.measure()
	}
	return most
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
