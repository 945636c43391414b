package plan

import (
	"cmp"
	mathbits "math/bits"
	"slices"
)

// lane is an offer that is worth considering.
type lane struct {
	offer, pool int
	price       float64
	free        vec
	// usage is what a node counts against each of the pool's limits.
	usage []int64
	// doors are the distinct sets of offers, of those that kinds fit, that this one is in.
	doors bits
}

// findLanes lists the offers that no other one beats: one that is as cheap, as large and open to the same kinds, and
// counts no more against the limits of the pool. Kinds that fit the same offers are looked at as one.
func (p *problem) findLanes() {
	doorOf, index := make([]int, len(p.kinds)), map[string]int{}
	var doors []bits
	var key []byte
	for ki := range p.kinds {
		key = key[:0]
		for _, x := range p.kinds[ki].fits {
			key = append(key, byte(x), byte(x>>8), byte(x>>16), byte(x>>24), byte(x>>32), byte(x>>40), byte(x>>48), byte(x>>56))
		}
		di, ok := index[string(key)]
		if !ok {
			di = len(doors)
			index[string(key)] = di
			doors = append(doors, p.kinds[ki].fits)
		}
		doorOf[ki] = di
	}
	p.lanes = unbeaten(p.openLanes(doors))
	taking := make([]bits, len(doors))
	for di := range doors {
		taking[di] = newBits(len(p.lanes))
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
func (p *problem) openLanes(doors []bits) []*lane {
	either := newBits(len(p.m.offers))
	for _, door := range doors {
		either.or(door)
	}
	var store []lane
	begin, shape := 0, -1 // Where the lanes of this type begin.
	of := newBits(len(doors))
	for w, word := range either {
		for ; word != 0; word &= word - 1 {
			oi := w<<6 + mathbits.TrailingZeros64(word)
			o := &p.m.offers[oi]
			if o.shape != shape {
				begin, shape = len(store), o.shape
			}
			clear(of)
			for di, door := range doors {
				if door.has(oi) {
					of.set(di)
				}
			}
			l := lane{offer: oi, pool: o.pool, price: o.Price, usage: p.m.types[o.shape].usage}
			if i := p.alike(store[begin:], o, of); i >= 0 {
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
	limit := p.nodeLimit()
	for i := range store {
		all[i] = &store[i]
		if free := p.m.offers[all[i].offer].free; i > 0 && &p.m.offers[all[i-1].offer].free[0] == &free[0] {
			all[i].free = all[i-1].free
		} else if all[i].free = p.compact(free); limit > 0 {
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
func (p *problem) alike(lanes []lane, o *offer, doors bits) int {
	return slices.IndexFunc(lanes, func(l lane) bool {
		return slices.Equal(l.doors, doors) && slices.Equal(p.m.offers[l.offer].free, o.free)
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
