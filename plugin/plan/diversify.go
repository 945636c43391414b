package plan

import (
	"cmp"
	"slices"
)

// spotKey is what AWS takes back together: spot instances of one type in one zone.
type spotKey struct {
	shape int
	zone  string
}

// diversify buys other instances for some of the nodes where too many of the batch's pods would be on spot instances of
// one type in one zone (Options.SpotShare), the cheapest moves first.
func (m *model) diversify(p *problem, nodes []node) {
	share := or(m.in.Options.SpotShare, defaultSpotShare)
	if share >= 1 || len(nodes) < 2 {
		return
	}
	limit := int64(max(share, 0) * float64(m.batch()))
	held := map[spotKey]int64{}
	for i := range nodes {
		if key, ok := m.spotKey(nodes[i].offer); ok {
			held[key] += nodes[i].sum[dimPods]
		}
	}
	var over []spotKey
	for key, n := range held {
		if n > limit {
			over = append(over, key)
		}
	}
	slices.SortFunc(over, func(a, b spotKey) int { return cmp.Or(a.shape-b.shape, cmp.Compare(a.zone, b.zone)) })
	for _, key := range over {
		m.spreadOut(p, nodes, key, spotLimit{limit: limit, held: held})
	}
}

func (m *model) spotKey(oi int) (spotKey, bool) {
	o := &m.market.offers[oi]
	return spotKey{o.shape, o.Zone}, o.CapacityType == capacitySpot
}

// spotLimit is how many pods each key may hold, and how many it does.
type spotLimit struct {
	limit int64
	held  map[spotKey]int64
}

// spotCrowds counts the pods of the nodes by what AWS takes back together; nil where the limit cannot be exceeded.
func (m *model) spotCrowds(nodes []node) *spotLimit {
	share := or(m.in.Options.SpotShare, defaultSpotShare)
	if share >= 1 || len(nodes) < 2 {
		return nil
	}
	l := spotLimit{limit: int64(max(share, 0) * float64(m.batch())), held: map[spotKey]int64{}}
	sum := int64(0)
	for i := range nodes {
		if key, ok := m.spotKey(nodes[i].offer); ok {
			l.held[key] += nodes[i].sum[dimPods]
			sum += nodes[i].sum[dimPods]
		}
	}
	if sum <= l.limit {
		return nil
	}
	return &l
}

// uncrowded is the span without the choices by which EC2 could put more pods on spot instances of one type in one zone
// than Options.SpotShare allows: the expected zone alone, and there no type that others fill already. Should EC2 have none
// of what is left, the launch fails and the pods are planned again, without what was sold out.
func (m *model) uncrowded(sp span, n node) (span, bool) {
	own, spot := m.spotKey(n.offer)
	if m.crowds == nil || !spot || m.crowds.held[own] > m.crowds.limit {
		return sp, false // Where the price does not let it be, any other zone is welcome.
	}
	sp.zones, sp.shared = []string{own.zone}, sp.shared.clone()
	sp.shared.each(func(oi int) {
		if m.market.offers[oi].Zone != own.zone {
			return
		}
		key, ok := m.spotKey(oi)
		if held := m.crowds.held[key]; ok && key != own && held > 0 && held+n.sum[dimPods] > m.crowds.limit {
			sp.shared[oi>>6] &^= 1 << (oi & 63)
		}
	})
	return sp, true
}

// spreadOut moves nodes from the key until it holds no more than the limit.
func (m *model) spreadOut(p *problem, nodes []node, key spotKey, l spotLimit) {
	others := m.elsewheres(p, nodes, key)
	for l.held[key] > l.limit {
		best, to, least := -1, -1, 0.0
		for i := range nodes {
			if others[i] == nil || i > 0 && best >= 0 && alike(&nodes[i], &nodes[i-1]) {
				continue
			}
			if oi := m.roomy(others[i], nodes[i].sum[dimPods], l); oi >= 0 {
				extra := (m.market.offers[oi].Price - m.market.offers[nodes[i].offer].Price) / float64(nodes[i].sum[dimPods])
				if best < 0 || extra < least-1e-12 {
					best, to, least = i, oi, extra
				}
			}
		}
		if best < 0 {
			return
		}
		l.held[key] -= nodes[best].sum[dimPods]
		if k, ok := m.spotKey(to); ok {
			l.held[k] += nodes[best].sum[dimPods]
		}
		nodes[best].offer = to
		delete(others, best)
	}
}

// elsewheres are the substitutes of the key's nodes, by index.
func (m *model) elsewheres(p *problem, nodes []node, key spotKey) map[int][]int {
	out := map[int][]int{}
	for i := range nodes {
		if k, ok := m.spotKey(nodes[i].offer); !ok || k != key {
			continue
		}
		if i > 0 && out[i-1] != nil && alike(&nodes[i], &nodes[i-1]) {
			out[i] = out[i-1]
			continue
		}
		out[i] = m.substitutes(p, &nodes[i])
	}
	return out
}

func alike(a, b *node) bool { return a.offer == b.offer && slices.Equal(a.items, b.items) }

// roomy is the first of the offers that may hold so many pods more; -1 if none may.
func (m *model) roomy(offers []int, pods int64, l spotLimit) int {
	for _, oi := range offers {
		if key, spot := m.spotKey(oi); !spot || l.held[key]+pods <= l.limit {
			return oi
		}
	}
	return -1
}

// substitutes are the other offers that run the node's pods for little more and count no more against the limits of the pool, the
// cheapest first.
func (m *model) substitutes(p *problem, n *node) []int {
	now := &m.market.offers[n.offer]
	most := now.Price * (1 + or(m.in.Options.SpotPremium, defaultSpotPremium))
	own, _ := m.spotKey(n.offer)
	var out []int
	for oi := m.market.pools[now.pool].offers[0]; oi < m.market.pools[now.pool].offers[1]; oi++ {
		o := &m.market.offers[oi]
		if o.Price > most || !p.may.has(oi) || !o.free.holds(n.sum) || !m.countsNoMore(o.shape, now.shape) {
			continue
		}
		if key, _ := m.spotKey(oi); key == own {
			continue
		}
		if !slices.ContainsFunc(n.items, func(it item) bool { return !p.units[it.unit].fits.has(oi) }) {
			out = append(out, oi)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(m.market.offers[a].Price, m.market.offers[b].Price) })
	return out
}

// countsNoMore says that a node of the shape counts no more against the limits than one of the other.
func (m *model) countsNoMore(shape, other int) bool {
	for i, n := range m.market.types[shape].usage {
		if n > m.market.types[other].usage[i] {
			return false
		}
	}
	return true
}
