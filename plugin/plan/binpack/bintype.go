package binpack

import (
	"cmp"
	"encoding/binary"
	mathbits "math/bits"
	"slices"

	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
)

// binType is a candidate that is worth considering.
type binType struct {
	offer, pool int
	price       float64
	free        Vec
	// usage is what a bin counts against each of the pool's limits.
	usage []int64
	// classes are the eligibility classes that may use it: item types that fit the same candidates are one.
	classes bitset.Set
}

// findBins lists the Pareto-optimal candidates: those that no other one dominates by being as cheap, as large and open to the same
// eligibility classes while it counts no more against the limits of the pool.
func (p *problem) findBins(in *Problem, asked []int) {
	classOf, index := make([]int, len(p.types)), map[string]int{}
	var classes []bitset.Set
	var key []byte
	for ti := range p.types {
		key = key[:0]
		for _, x := range in.Items[ti].Fits {
			key = binary.LittleEndian.AppendUint64(key, x)
		}
		di, ok := index[string(key)]
		if !ok {
			di = len(classes)
			index[string(key)] = di
			classes = append(classes, in.Items[ti].Fits)
		}
		classOf[ti] = di
	}
	p.bins = paretoOptimal(p.openBins(in, asked, classes))
	open := make([]bitset.Set, len(p.bins))
	for bi := range p.bins {
		open[bi] = p.bins[bi].classes
	}
	taking := transposed(open, len(classes))
	for ti := range p.types {
		p.types[ti].takes = taking[classOf[ti]]
	}
}

// openBins returns the candidates that the limits allow and that any class may use, sorted by price. Of the candidates of a group that
// serve alike it has the cheapest alone.
func (p *problem) openBins(in *Problem, asked []int, classes []bitset.Set) []*binType {
	either := bitset.New(len(in.Bins))
	for _, class := range classes {
		either.Union(class)
	}
	var store []binType
	begin, shape := 0, -1 // where those of this group begin
	classesOf := transposed(classes, len(in.Bins))
	for w, word := range either {
		for ; word != 0; word &= word - 1 {
			oi := w<<6 + mathbits.TrailingZeros64(word)
			o := &in.Bins[oi]
			if o.Group != shape {
				begin, shape = len(store), o.Group
			}
			of := classesOf[oi]
			l := binType{offer: oi, pool: o.Pool, price: o.Price, usage: o.Usage}
			if i := in.alike(store[begin:], o, of); i >= 0 {
				if same := &store[begin+i]; l.price < same.price {
					same.offer, same.price = oi, l.price
				}
			} else if p.affordable(&l, 1, p.room) > 0 {
				l.classes = of
				store = append(store, l)
			}
		}
	}
	all := make([]*binType, len(store))
	limit := in.Most
	for i := range store {
		all[i] = &store[i]
		if free := in.Bins[all[i].offer].Free; i > 0 && &in.Bins[all[i-1].offer].Free[0] == &free[0] {
			all[i].free = all[i-1].free
		} else if all[i].free = compact(free, asked); limit > 0 {
			all[i].free[0] = min(all[i].free[0], limit)
		}
	}
	slices.SortFunc(all, func(a, b *binType) int {
		if a.price != b.price {
			return cmp.Compare(a.price, b.price)
		}
		return cmp.Or(slices.Compare(b.free, a.free), cmp.Compare(a.offer, b.offer))
	})
	return all
}

// alike returns the index of the bin type with as much room as the candidate, the same classes and the same usage; -1 for none.
func (p *Problem) alike(bins []binType, o *Bin, classes bitset.Set) int {
	return slices.IndexFunc(bins, func(l binType) bool {
		return slices.Equal(l.classes, classes) && slices.Equal(l.usage, o.Usage) && slices.Equal(p.Bins[l.offer].Free, o.Free)
	})
}

// paretoOptimal returns those of the bin types, sorted by price, that no cheaper one dominates.
func paretoOptimal(all []*binType) []binType {
	var out []binType
	for _, l := range all {
		if !slices.ContainsFunc(out, func(o binType) bool { return o.dominates(l) }) {
			out = append(out, *l)
		}
	}
	return out
}

// dominates reports whether l serves wherever b does; it is known to be as cheap.
func (l *binType) dominates(b *binType) bool {
	if l.pool != b.pool {
		return false
	}
	for d, n := range b.free {
		if l.free[d] < n {
			return false
		}
	}
	for i, x := range l.usage {
		if x > b.usage[i] {
			return false
		}
	}
	for i, x := range b.classes {
		if x&^l.classes[i] != 0 {
			return false
		}
	}
	return true
}

// affordable returns how many of n bins the limits leave room for.
func (p *problem) affordable(l *binType, n int, room [][]int64) int {
	for i, used := range l.usage {
		if used > 0 {
			n = min(n, int(max(room[l.pool][i], 0)/used))
		}
	}
	return n
}

// spend takes n bins off the room that the limits leave.
func (p *problem) spend(l *binType, n int, room [][]int64) {
	for i, used := range l.usage {
		room[l.pool][i] -= used * int64(n)
	}
}
