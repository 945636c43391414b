package binpack

import (
	"cmp"
	mathbits "math/bits"
	"slices"
)

// lane is an offer that is worth considering.
type lane struct {
	offer, pool int
	price       float64
	free        Vec
	// usage is what a node counts against each of the pool's limits.
	usage []int64
	// doors are the distinct sets of offers, of those that kinds fit, that this one is in.
	doors Set
}

// findLanes lists the offers that no other one beats: one that is as cheap, as large and open to the same kinds, and
// counts no more against the limits of the pool. Kinds that fit the same offers are looked at as one.
func (p *problem) findLanes(in *Problem, asked []int) {
	doorOf, index := make([]int, len(p.kinds)), map[string]int{}
	var doors []Set
	var key []byte
	for ki := range p.kinds {
		key = key[:0]
		for _, x := range in.Items[ki].Fits {
			key = append(key, byte(x), byte(x>>8), byte(x>>16), byte(x>>24), byte(x>>32), byte(x>>40), byte(x>>48), byte(x>>56))
		}
		di, ok := index[string(key)]
		if !ok {
			di = len(doors)
			index[string(key)] = di
			doors = append(doors, in.Items[ki].Fits)
		}
		doorOf[ki] = di
	}
	p.lanes = unbeaten(p.openLanes(in, asked, doors))
	taking := make([]Set, len(doors))
	for di := range doors {
		taking[di] = newSet(len(p.lanes))
		for li := range p.lanes {
			if p.lanes[li].doors[di>>6]&(1<<(di&63)) != 0 {
				taking[di][li>>6] |= 1 << (li & 63)
			}
		}
	}
	for ki := range p.kinds {
		p.kinds[ki].takes = taking[doorOf[ki]]
	}
}

// openLanes are the offers that the limits allow and that are in any of the doors, sorted by price. Of the offers of a type that
// serve alike, in other zones or of another capacity type, it has the cheapest alone.
func (p *problem) openLanes(in *Problem, asked []int, doors []Set) []*lane {
	either := newSet(len(in.Bins))
	for _, door := range doors {
		either.or(door)
	}
	var store []lane
	begin, shape := 0, -1 // Where the lanes of this type begin.
	of := newSet(len(doors))
	for w, word := range either {
		for ; word != 0; word &= word - 1 {
			oi := w<<6 + mathbits.TrailingZeros64(word)
			o := &in.Bins[oi]
			if o.Group != shape {
				begin, shape = len(store), o.Group
			}
			clear(of)
			for di, door := range doors {
				if door.has(oi) {
					of.set(di)
				}
			}
			l := lane{offer: oi, pool: o.Pool, price: o.Price, usage: o.Usage}
			if i := in.alike(store[begin:], o, of); i >= 0 {
				if same := &store[begin+i]; l.price < same.price {
					same.offer, same.price = oi, l.price
				}
			} else if p.affordable(&l, 1, p.room) > 0 {
				l.doors = of.clone()
				store = append(store, l)
			}
		}
	}
	all := make([]*lane, len(store))
	limit := in.Most
	for i := range store {
		all[i] = &store[i]
		if free := in.Bins[all[i].offer].Free; i > 0 && &in.Bins[all[i-1].offer].Free[0] == &free[0] {
			all[i].free = all[i-1].free
		} else if all[i].free = compact(free, asked); limit > 0 {
			all[i].free[0] = min(all[i].free[0], limit)
		}
	}
	slices.SortFunc(all, func(a, b *lane) int {
		if a.price != b.price {
			return cmp.Compare(a.price, b.price)
		}
		return cmp.Or(slices.Compare(b.free, a.free), cmp.Compare(a.offer, b.offer))
	})
	return all
}

// alike is the index of the lane with as much room as the offer and the same doors; -1 for none.
func (p *Problem) alike(lanes []lane, o *Bin, doors Set) int {
	return slices.IndexFunc(lanes, func(l lane) bool {
		return slices.Equal(l.doors, doors) && slices.Equal(p.Bins[l.offer].Free, o.Free)
	})
}

// unbeaten are those of the lanes, sorted by price, that no cheaper one beats.
func unbeaten(all []*lane) []lane {
	var out []lane
	for _, l := range all {
		if !slices.ContainsFunc(out, func(o lane) bool { return o.beats(l) }) {
			out = append(out, *l)
		}
	}
	return out
}

// beats says that a serves wherever b does; it is known to be as cheap.
func (l *lane) beats(b *lane) bool {
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
	for i, x := range b.doors {
		if x&^l.doors[i] != 0 {
			return false
		}
	}
	return true
}

// affordable is how many of n nodes of the lane the limits leave room for.
func (p *problem) affordable(l *lane, n int, room [][]int64) int {
	for i, used := range l.usage {
		if used > 0 {
			n = min(n, int(max(room[l.pool][i], 0)/used))
		}
	}
	return n
}

// spend takes n nodes of the lane off the room that the limits leave.
func (p *problem) spend(l *lane, n int, room [][]int64) {
	for i, used := range l.usage {
		room[l.pool][i] -= used * int64(n)
	}
}
