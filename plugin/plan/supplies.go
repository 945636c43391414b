package plan

import (
	"cmp"
	"maps"
	"slices"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// compile notes what each capacity reservation and each commitment still holds.
func (s *supplies) compile(in *Input) {
	for oi := range s.market.offers {
		o := &s.market.offers[oi]
		if o.ReservationID == "" {
			continue
		}
		if s.left == nil {
			s.left = map[string]int64{}
		}
		s.left[o.supply] = max(o.Remaining, 0)
	}
	s.compileCommitments(in)
	s.closeEmpty()
}

// closeEmpty takes the offers of which no more can be had off those that can be bought.
func (s *supplies) closeEmpty() {
	if s.left == nil {
		return
	}
	for oi := range s.market.offers {
		if !s.holds(oi) {
			s.market.available.Remove(oi)
		}
	}
}

// holds reports whether the supply of the offer holds one more of its nodes.
func (s *supplies) holds(oi int) bool {
	o := &s.market.offers[oi]
	left, limited := s.left[o.supply]
	return !limited || left >= o.draw
}

// book takes the nodes off their supplies, times times.
func (s *supplies) book(nodes []node, times int64) {
	for _, n := range nodes {
		if o := &s.market.offers[n.offer]; o.supply != "" {
			s.left[o.supply] -= times * o.draw
		}
	}
}

// packRationed is pack with no more nodes from a capacity reservation or a commitment than it holds: those that would cost most elsewhere
// stay, and the pods of the others are packed again without what is used up.
func (m *model) packRationed(units []unit, weight int32) packing {
	pk := m.pack(units, weight)
	if m.supplies.left == nil {
		return pk
	}
	m.supplies.book(pk.best.nodes, 1)
	over := slices.ContainsFunc(slices.Collect(maps.Values(m.supplies.left)), func(left int64) bool { return left < 0 })
	if !over {
		m.supplies.closeEmpty()
		return pk
	}
	m.supplies.book(pk.best.nodes, -1)
	m.market.book(pk.best.nodes, -1)
	if steady, rest := m.supplies.apart(pk.problem); steady != nil {
		m.packApart(&pk, steady, rest)
		return pk
	}
	kept := m.supplies.ration(pk.problem, pk.best.nodes)
	m.supplies.book(kept, 1)
	m.market.book(kept, 1)
	m.supplies.giveUpRests()
	m.supplies.closeEmpty()
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

// ration is the nodes that are kept: of each supply as many as it holds, those first whose pods would cost most on
// other offers for what they take of it; of the others none, since what is packed again may share nodes with their pods.
func (s *supplies) ration(p *problem, nodes []node) []node {
	type worth struct {
		node  int
		price float64
	}
	byID := map[string][]worth{}
	for i := range nodes {
		if o := &s.market.offers[nodes[i].offer]; o.supply != "" {
			byID[o.supply] = append(byID[o.supply], worth{i, s.elsewhere(p, &nodes[i]) / float64(o.draw)})
		}
	}
	var out []node
	for _, id := range slices.Sorted(maps.Keys(byID)) {
		list, left := byID[id], s.left[id]
		slices.SortStableFunc(list, func(a, b worth) int { return cmp.Compare(b.price, a.price) })
		for _, w := range list {
			if draw := s.market.offers[nodes[w.node].offer].draw; draw <= left {
				out, left = append(out, nodes[w.node]), left-draw
			}
		}
	}
	return out
}

// elsewhere is what the node's pods would cost on the cheapest offer without a supply that holds them; a share of the
// highest price where none holds them all.
func (s *supplies) elsewhere(p *problem, n *node) float64 {
	best, highest := 0.0, 0.0
	for oi := range s.market.offers {
		o := &s.market.offers[oi]
		if o.supply != "" || !p.may.Has(oi) {
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
		for _, it := range in.Catalog.TypesOf(c.NodePool) {
			for _, o := range it.Offerings {
				if o.ReservationID != "" && it.Name == c.Expected.InstanceType && o.ReservationID == c.Labels[catalog.LabelReservationID] {
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

// reservations are the values of the labels of capacity reservations that a claim for reserved capacity alone may have: the pods and the
// NodePool may allow some kinds only. It is empty for other claims.
func (cf *claimForms) reservations(alts []int, sp span) map[string][]string {
	out := map[string][]string{}
	if slices.ContainsFunc(sp.capacity, func(c string) bool { return !catalog.CapacityTypeOf(c).Counted }) {
		return out
	}
	for _, ti := range alts {
		s := &cf.market.types[ti]
		for oi := s.offers[0]; oi < s.offers[1]; oi++ {
			o := &cf.market.offers[oi]
			if !sp.shared.Has(oi) || !o.Available || !slices.Contains(sp.zones, o.Zone) || !slices.Contains(sp.capacity, o.CapacityType) {
				continue
			}
			for _, k := range catalog.ReservationLabelKeys() {
				if v, ok := o.ReservationLabel(k); ok && !slices.Contains(out[k], v) {
					out[k] = append(out[k], v)
				}
			}
		}
	}
	for _, values := range out {
		slices.Sort(values)
	}
	return out
}

// supplies counts what capacity reservations and commitments still hold.
type supplies struct {
	market *market
	// left is what each supply still holds, in the unit of the draws of its offers; nil for no supplies.
	left map[string]int64
	// rests are what commitments had at first, by supply.
	rests map[string]int64
}
