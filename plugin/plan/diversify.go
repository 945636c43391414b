package plan

import (
	"cmp"
	"slices"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// spotKey is what AWS takes back together: spot instances of one type in one zone.
type spotKey struct {
	shape int
	zone  string
}

// diversify buys other instances for some of the nodes where too many of the batch's pods would be on spot instances of
// one type in one zone (Options.SpotShare), the cheapest moves first.
func (ss *spotSpread) diversify(p *problem, nodes []node) {
	share := or(ss.in.Options.SpotShare, defaultSpotShare)
	if share >= 1 || len(nodes) < 2 {
		return
	}
	limit := int64(max(share, 0) * float64(batchSize(ss.classes)))
	held := map[spotKey]int64{}
	for i := range nodes {
		if key, ok := ss.spotKey(nodes[i].offer); ok {
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
		ss.spreadOut(p, nodes, key, spotLimit{limit: limit, held: held})
	}
}

func (ss *spotSpread) spotKey(oi int) (spotKey, bool) {
	o := &ss.market.offers[oi]
	return spotKey{o.shape, o.Zone}, catalog.CapacityTypeOf(o.CapacityType).Interruptible
}

// spotLimit is how many pods each key may hold, and how many it does.
type spotLimit struct {
	limit int64
	held  map[spotKey]int64
}

// spotCrowds is how many pods there may be on what AWS takes back together, and how many there are, by offer; 0 for offers that are no
// spot ones.
type spotCrowds struct {
	limit int64
	held  []int64
}

// crowdsOf counts the pods of the nodes by what AWS takes back together; nil where the limit cannot be exceeded.
func (ss *spotSpread) crowdsOf(nodes []node) *spotCrowds {
	share := or(ss.in.Options.SpotShare, defaultSpotShare)
	if share >= 1 || len(nodes) < 2 {
		return nil
	}
	held, sum := map[spotKey]int64{}, int64(0)
	for i := range nodes {
		if key, ok := ss.spotKey(nodes[i].offer); ok {
			held[key] += nodes[i].sum[dimPods]
			sum += nodes[i].sum[dimPods]
		}
	}
	out := &spotCrowds{limit: int64(max(share, 0) * float64(batchSize(ss.classes))), held: make([]int64, len(ss.market.offers))}
	if sum <= out.limit {
		return nil
	}
	for oi := range ss.market.offers {
		if key, ok := ss.spotKey(oi); ok {
			out.held[oi] = held[key]
		}
	}
	return out
}

// uncrowded is the span without the choices by which EC2 could put more pods on spot instances of one type in one zone
// than Options.SpotShare allows: the expected zone alone, and there no type that others fill already. Should EC2 have none
// of what is left, the launch fails and the pods are planned again, without what was sold out.
func (ss *spotSpread) uncrowded(sp span, n node) (span, bool) {
	own, spot := ss.spotKey(n.offer)
	if ss.crowds == nil || !spot || ss.crowds.held[n.offer] > ss.crowds.limit {
		return sp, false // Where the price does not let it be, any other zone is welcome.
	}
	sp.zones, sp.shared = []string{own.zone}, sp.shared.Clone()
	sp.shared.Each(func(oi int) {
		o, held := &ss.market.offers[oi], ss.crowds.held[oi]
		if held > 0 && held+n.sum[dimPods] > ss.crowds.limit && o.Zone == own.zone && o.shape != own.shape {
			sp.shared.Remove(oi)
		}
	})
	return sp, true
}

// spreadOut moves nodes from the key until it holds no more than the limit.
func (ss *spotSpread) spreadOut(p *problem, nodes []node, key spotKey, l spotLimit) {
	others := ss.elsewheres(p, nodes, key)
	for l.held[key] > l.limit {
		best, to, least := -1, -1, 0.0
		for i := range nodes {
			if others[i] == nil || i > 0 && best >= 0 && alike(&nodes[i], &nodes[i-1]) {
				continue
			}
			if oi := ss.roomy(others[i], nodes[i].sum[dimPods], l); oi >= 0 {
				extra := (ss.market.offers[oi].cost(nodes[i].sum) - ss.market.offers[nodes[i].offer].cost(nodes[i].sum)) / float64(nodes[i].sum[dimPods])
				if best < 0 || extra < least-1e-12 {
					best, to, least = i, oi, extra
				}
			}
		}
		if best < 0 {
			return
		}
		l.held[key] -= nodes[best].sum[dimPods]
		if k, ok := ss.spotKey(to); ok {
			l.held[k] += nodes[best].sum[dimPods]
		}
		nodes[best].offer = to
		delete(others, best)
	}
}

// elsewheres are the substitutes of the key's nodes, by index.
func (ss *spotSpread) elsewheres(p *problem, nodes []node, key spotKey) map[int][]int {
	out := map[int][]int{}
	for i := range nodes {
		if k, ok := ss.spotKey(nodes[i].offer); !ok || k != key {
			continue
		}
		if i > 0 && out[i-1] != nil && alike(&nodes[i], &nodes[i-1]) {
			out[i] = out[i-1]
			continue
		}
		out[i] = ss.substitutes(p, &nodes[i])
	}
	return out
}

func alike(a, b *node) bool { return a.offer == b.offer && slices.Equal(a.items, b.items) }

// roomy is the first of the offers that may hold so many pods more; -1 if none may.
func (ss *spotSpread) roomy(offers []int, pods int64, l spotLimit) int {
	for _, oi := range offers {
		if key, spot := ss.spotKey(oi); !spot || l.held[key]+pods <= l.limit {
			return oi
		}
	}
	return -1
}

// leaveMetal buys other instances for the nodes of bare metal whose pods run on those for little more (Options.SpotPremium), and reports whether there
// were any. Bare metal takes minutes longer to start, and Karpenter launches none where another type is left.
func (ss *spotSpread) leaveMetal(p *problem, nodes []node) (left bool) {
	for i := range nodes {
		if !ss.bareMetal(nodes[i].offer) {
			continue
		}
		list := ss.substitutes(p, &nodes[i])
		if at := slices.IndexFunc(list, func(oi int) bool { return !ss.bareMetal(oi) }); at >= 0 {
			nodes[i].offer, left = list[at], true
		}
	}
	return left
}

func (ss *spotSpread) bareMetal(oi int) bool {
	return ss.market.types[ss.market.offers[oi].shape].BareMetal()
}

// substitutes are the other offers that run the node's pods for little more and count no more against the limits of the pool, the
// cheapest first. Bare metal is no substitute for anything else.
func (ss *spotSpread) substitutes(p *problem, n *node) []int {
	now := &ss.market.offers[n.offer]
	most := now.cost(n.sum) * (1 + or(ss.in.Options.SpotPremium, defaultSpotPremium))
	own, _ := ss.spotKey(n.offer)
	var out []int
	for oi := ss.market.pools[now.pool].offers[0]; oi < ss.market.pools[now.pool].offers[1]; oi++ {
		o := &ss.market.offers[oi]
		if o.cost(n.sum) > most || !p.may.Has(oi) || !o.free.holds(n.sum) || !ss.countsNoMore(oi, n.offer) {
			continue
		}
		if ss.bareMetal(oi) && !ss.bareMetal(n.offer) {
			continue
		}
		if key, _ := ss.spotKey(oi); key == own {
			continue
		}
		if !slices.ContainsFunc(n.items, func(it item) bool { return !p.units[it.unit].fits.Has(oi) }) {
			out = append(out, oi)
		}
	}
	slices.SortStableFunc(out, func(a, b int) int {
		return cmp.Compare(ss.market.offers[a].cost(n.sum), ss.market.offers[b].cost(n.sum))
	})
	return out
}

// countsNoMore says that a node of the offer counts no more against the limits than one of the other.
func (ss *spotSpread) countsNoMore(offer, other int) bool {
	than := usageOf(ss.market, other)
	for i, n := range usageOf(ss.market, offer) {
		if n > than[i] {
			return false
		}
	}
	return true
}

// spotSpread buys other offers than the cheapest ones for some nodes: pods on spot instances are spread over types and zones, which AWS takes back
// together, and bare metal is left to pods that need it.
type spotSpread struct {
	in      *Input
	market  *market
	classes []class
	// crowds are the pods on spot instances of one type in one zone where there is a limit to them; nil for none.
	crowds *spotCrowds
}
