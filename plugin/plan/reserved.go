package plan

import (
	"cmp"
	"maps"
	"slices"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// compileReserved notes how many instances each capacity reservation still holds.
func (m *model) compileReserved() {
	for oi := range m.market.offers {
		o := &m.market.offers[oi]
		if o.ReservationID == "" {
			continue
		}
		if m.reserved == nil {
			m.reserved = map[string]int64{}
		}
		m.reserved[o.ReservationID] = max(o.Remaining, 0)
	}
	m.closeReserved()
}

// closeReserved takes the offers of reservations that hold no more instances off those that can be bought.
func (m *model) closeReserved() {
	for oi := range m.market.offers {
		if left, limited := m.reserved[m.market.offers[oi].ReservationID]; limited && left <= 0 {
			m.market.available[oi>>6] &^= 1 << (oi & 63)
		}
	}
}

// bookReserved takes the nodes off their reservations, times times.
func (m *model) bookReserved(nodes []node, times int64) {
	for _, n := range nodes {
		if id := m.market.offers[n.offer].ReservationID; id != "" {
			m.reserved[id] -= times
		}
	}
}

// packRationed is pack with no more nodes on a capacity reservation than it holds: those that would cost most elsewhere
// stay, and the pods of the others are packed again without the reservation.
func (m *model) packRationed(units []unit, weight int32) packing {
	pk := m.pack(units, weight)
	if m.reserved == nil {
		return pk
	}
	m.bookReserved(pk.best.nodes, 1)
	over := slices.ContainsFunc(slices.Collect(maps.Values(m.reserved)), func(left int64) bool { return left < 0 })
	if !over {
		m.closeReserved()
		return pk
	}
	m.bookReserved(pk.best.nodes, -1)
	m.market.book(pk.best.nodes, -1)
	kept := m.ration(pk.problem, pk.best.nodes)
	m.bookReserved(kept, 1)
	m.market.book(kept, 1)
	m.closeReserved()
	left := slices.Clone(units)
	for _, n := range kept {
		for _, it := range n.items {
			left[it.unit].count -= it.n
		}
	}
	rest := m.packRationed(left, weight)
	pk.best = solution{nodes: slices.Concat(kept, rest.best.nodes), left: rest.best.left}
	pk.firstFit = max(rest.firstFit+pk.problem.cost(kept), pk.problem.cost(pk.best.nodes))
	return pk
}

// ration is the nodes that are kept: of each reservation as many as it holds, those first whose pods would cost most on
// other offers; of the others none, since what is packed anew may share nodes with their pods.
func (m *model) ration(p *problem, nodes []node) []node {
	type worth struct {
		node  int
		price float64
	}
	byID := map[string][]worth{}
	for i := range nodes {
		if id := m.market.offers[nodes[i].offer].ReservationID; id != "" {
			byID[id] = append(byID[id], worth{i, m.elsewhere(p, &nodes[i])})
		}
	}
	var out []node
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		list := byID[id]
		slices.SortStableFunc(list, func(a, b worth) int { return cmp.Compare(b.price, a.price) })
		for _, w := range list[:min(int64(len(list)), m.reserved[id])] {
			out = append(out, nodes[w.node])
		}
	}
	return out
}

// elsewhere is what the node's pods would cost on the cheapest offer outside reservations that holds them; a share of the
// dearest price where none holds them all.
func (m *model) elsewhere(p *problem, n *node) float64 {
	best, dearest := 0.0, 0.0
	for oi := range m.market.offers {
		o := &m.market.offers[oi]
		if o.ReservationID != "" || !p.may.has(oi) {
			continue
		}
		dearest = max(dearest, o.Price*share(n.sum, o.free))
		if !o.free.holds(n.sum) || best > 0 && o.Price >= best {
			continue
		}
		if !slices.ContainsFunc(n.items, func(it item) bool { return !p.units[it.unit].fits.has(oi) }) {
			best = o.Price
		}
	}
	if best > 0 {
		return best
	}
	return dearest
}

// remaining is the catalog with the claims' instances taken off their reservations.
func (in *Input) remaining(claims []Claim) map[string][]catalog.InstanceType {
	taken := map[string]int64{}
	for i := range claims {
		c := &claims[i]
		for _, it := range in.Catalog.InstanceTypes[in.Catalog.NodePools[c.NodePool].NodeClass] {
			for _, o := range it.Offerings {
				if o.ReservationID != "" && it.Name == c.Expected.InstanceType && o.Zone == c.Expected.Zone && o.CapacityType == c.Expected.CapacityType {
					taken[o.ReservationID]++
				}
			}
		}
	}
	if len(taken) == 0 {
		return in.Catalog.InstanceTypes
	}
	out := maps.Clone(in.Catalog.InstanceTypes)
	for class, types := range out {
		types = slices.Clone(types)
		for ti := range types {
			types[ti].Offerings = slices.Clone(types[ti].Offerings)
			for i := range types[ti].Offerings {
				o := &types[ti].Offerings[i]
				o.Remaining -= taken[o.ReservationID]
			}
		}
		out[class] = types
	}
	return out
}
