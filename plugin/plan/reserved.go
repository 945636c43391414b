package plan

import (
	"cmp"
	"maps"
	"slices"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// compileReserved notes how many instances each capacity reservation still holds.
func (cr *capacityReservations) compile() {
	for oi := range cr.market.offers {
		o := &cr.market.offers[oi]
		if o.ReservationID == "" {
			continue
		}
		if cr.left == nil {
			cr.left = map[string]int64{}
		}
		cr.left[o.ReservationID] = max(o.Remaining, 0)
	}
	cr.closeEmpty()
}

// closeReserved takes the offers of reservations that hold no more instances off those that can be bought.
func (cr *capacityReservations) closeEmpty() {
	for oi := range cr.market.offers {
		if left, limited := cr.left[cr.market.offers[oi].ReservationID]; limited && left <= 0 {
			cr.market.available.Remove(oi)
		}
	}
}

// bookReserved takes the nodes off their reservations, times times.
func (cr *capacityReservations) book(nodes []node, times int64) {
	for _, n := range nodes {
		if id := cr.market.offers[n.offer].ReservationID; id != "" {
			cr.left[id] -= times
		}
	}
}

// packRationed is pack with no more nodes on a capacity reservation than it holds: those that would cost most elsewhere
// stay, and the pods of the others are packed again without the reservation.
func (m *model) packRationed(units []unit, weight int32) packing {
	pk := m.pack(units, weight)
	if m.reservations.left == nil {
		return pk
	}
	m.reservations.book(pk.best.nodes, 1)
	over := slices.ContainsFunc(slices.Collect(maps.Values(m.reservations.left)), func(left int64) bool { return left < 0 })
	if !over {
		m.reservations.closeEmpty()
		return pk
	}
	m.reservations.book(pk.best.nodes, -1)
	m.market.book(pk.best.nodes, -1)
	kept := m.reservations.ration(pk.problem, pk.best.nodes)
	m.reservations.book(kept, 1)
	m.market.book(kept, 1)
	m.reservations.closeEmpty()
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
// other offers; of the others none, since what is packed again may share nodes with their pods.
func (cr *capacityReservations) ration(p *problem, nodes []node) []node {
	type worth struct {
		node  int
		price float64
	}
	byID := map[string][]worth{}
	for i := range nodes {
		if id := cr.market.offers[nodes[i].offer].ReservationID; id != "" {
			byID[id] = append(byID[id], worth{i, cr.elsewhere(p, &nodes[i])})
		}
	}
	var out []node
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		list := byID[id]
		slices.SortStableFunc(list, func(a, b worth) int { return cmp.Compare(b.price, a.price) })
		for _, w := range list[:min(int64(len(list)), cr.left[id])] {
			out = append(out, nodes[w.node])
		}
	}
	return out
}

// elsewhere is what the node's pods would cost on the cheapest offer outside reservations that holds them; a share of the
// highest price where none holds them all.
func (cr *capacityReservations) elsewhere(p *problem, n *node) float64 {
	best, highest := 0.0, 0.0
	for oi := range cr.market.offers {
		o := &cr.market.offers[oi]
		if o.ReservationID != "" || !p.may.Has(oi) {
			continue
		}
		highest = max(highest, o.Price*share(n.sum, o.free))
		price := o.cost(n.sum)
		if !o.free.holds(n.sum) || best > 0 && price >= best {
			continue
		}
		if !slices.ContainsFunc(n.items, func(it item) bool { return !p.units[it.unit].fits.Has(oi) }) {
			best = price
		}
	}
	if best > 0 {
		return best
	}
	return highest
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

// capacityReservations counts the instances that capacity reservations still hold.
type capacityReservations struct {
	market *market
	// left is how many instances each capacity reservation still holds, by its id; nil for none.
	left map[string]int64
}
