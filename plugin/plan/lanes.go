package plan

import (
	"cmp"
	"slices"
)

// lane is an offer that is worth considering, with the units that it takes.
type lane struct {
	offer, pool int
	price       float64
	free        vec
	units       []int
	takes       bits
}

// lanes are the offers of the problem that no other one beats: one that is as cheap, as large and open to the same
// units, and counts no more against the limits of the pool.
func (p *problem) lanes() []lane {
	room := p.cloneRoom()
	var all []*lane
	for oi := range p.m.offers {
		if !p.may.has(oi) || !p.affordable(oi, room) {
			continue
		}
		o := &p.m.offers[oi]
		l := &lane{offer: oi, pool: o.pool, price: o.Price, free: o.free, takes: newBits(len(p.units))}
		for ui := range p.units {
			if p.units[ui].count > 0 && p.units[ui].fits.has(oi) {
				l.takes.set(ui)
			}
		}
		if !l.takes.empty() {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b *lane) int {
		return cmp.Or(cmp.Compare(a.price, b.price), slices.Compare(b.free, a.free), cmp.Compare(a.offer, b.offer))
	})
	return p.unbeaten(all)
}

// unbeaten are those of the lanes, sorted by price, that no cheaper one beats.
func (p *problem) unbeaten(all []*lane) []lane {
	asked := make([]bool, len(p.m.dims))
	for ui := range p.units {
		for d, n := range p.units[ui].need {
			asked[d] = asked[d] || n > 0
		}
	}
	var out []lane
	for _, l := range all {
		if slices.ContainsFunc(out, func(o lane) bool { return p.beats(&o, l, asked) }) {
			continue
		}
		for ui := range p.units {
			if l.takes.has(ui) {
				l.units = append(l.units, ui)
			}
		}
		out = append(out, *l)
	}
	return out
}

// beats says that a serves wherever b does; it is known to be as cheap.
func (p *problem) beats(a, b *lane, asked []bool) bool {
	if a.pool != b.pool {
		return false
	}
	for d, on := range asked {
		if on && a.free[d] < b.free[d] {
			return false
		}
	}
	if !b.takes.within(a.takes) {
		return false
	}
	x, y := p.m.types[p.m.offers[a.offer].shape].usage, p.m.types[p.m.offers[b.offer].shape].usage
	for i := range x {
		if x[i] > y[i] {
			return false
		}
	}
	return true
}
