// Package cover lowers the prices of nodes that Savings Plans and Reserved Instances pay for. It is pure.
package cover

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
	"github.com/slipway-k8s/slipway/plugin/consolidate"
)

// Lower lowers the prices of nodes that commitments pay for to what the planner counts for such nodes. Labels are those of all nodes of the
// cluster, in-flight ones included, by name: they use the commitments as well. The fleet's nodes have their prices already.
//
// If more nodes run than a commitment pays for, it changes no bill which of them counts as covered: the commitment pays for another node when one is removed. So a
// node saves its price if it is removed and its coverage moves to another one. The nodes that count as not covered are those that may be replaced by
// cheaper ones: first those whose NodePool may launch what needs no commitment, such as spot nodes; of them the emptiest.
//
// Once a commitment is used up, what a node uses of it would pay for something else: for nodes on demand that nothing pays for, and then for those that are
// spot and may be on demand. So a node that counts as covered is worth that, and is given up where its pods fit elsewhere for less. Nodes that may be spot
// themselves are not: spot nodes would replace them, and they the spot nodes.
func Lower(cat catalog.State, fleet []consolidate.Node, labels map[string]map[string]string) {
	if len(cat.Commitments) == 0 {
		return
	}
	nodes, pools, spot := billed(cat, fleet, labels), commitment.Pools(cat.Commitments), worth(cat, fleet)
	over := uncovered(pools, slices.Clone(nodes))
	for p := range pools {
		left := pools[p].Amount
		for i := range nodes {
			n := &nodes[i]
			share, draw := n.take(&pools[p], &left)
			if share == 0 || n.of == nil {
				continue
			}
			price := pools[p].Price(draw, n.OnDemand)
			if !n.elsewhere && over[p] >= 0 {
				saved := max(n.open, min(over[p]/draw, 1))
				saved += (1 - saved) * spot
				price = max(price, (saved-n.open)/share*n.OnDemand)
			}
			n.of.Price -= share * (n.OnDemand - price)
		}
	}
}

// take lets a node use what is left of a pool. It returns how much of the node that pays for, and what all of the node uses.
func (n *node) take(pool *commitment.Pool, left *float64) (share, draw float64) {
	draw, ok := pool.Draw(n.InstanceType, n.Zone, n.OnDemand)
	if !ok || n.open <= 0 || *left <= 0 {
		return 0, 0
	}
	share = min(n.open, *left/draw)
	*left -= share * draw
	n.open -= share
	return share, draw
}

// uncovered returns for each pool what nodes would use of it that nothing pays for; -1 for a pool that is not used up. It changes the nodes.
func uncovered(pools []commitment.Pool, nodes []node) []float64 {
	out := make([]float64, len(pools))
	for p := range pools {
		left := pools[p].Amount
		for i := range nodes {
			nodes[i].take(&pools[p], &left)
		}
		if left > 1e-9*pools[p].Amount {
			out[p] = -1
		}
	}
	for p := range pools {
		for i := range nodes {
			n := &nodes[i]
			if draw, ok := pools[p].Draw(n.InstanceType, n.Zone, n.OnDemand); ok && out[p] >= 0 {
				out[p] += max(n.open, 0) * draw
			}
		}
	}
	return out
}

// worth returns what spot nodes whose NodePools may launch on demand as well cost, as a share of what they would cost on demand; 0 if there are none.
func worth(cat catalog.State, fleet []consolidate.Node) float64 {
	counts, prices := map[catalog.Billed]int{}, map[catalog.Billed]float64{}
	for i := range fleet {
		n := &fleet[i]
		if pool := cat.NodePools[n.NodePool]; !catalog.CapacityTypeOf(n.CapacityType).Committed && pool.OnDemand() {
			b := catalog.Billed{InstanceType: n.InstanceType, Zone: n.Zone}
			counts[b]++
			prices[b] += n.Price
		}
	}
	paid, onDemand := 0.0, 0.0
	for _, u := range cat.Uses(counts) {
		paid, onDemand = paid+prices[catalog.Billed{InstanceType: u.InstanceType, Zone: u.Zone}], onDemand+float64(u.Count)*u.OnDemand
	}
	if onDemand == 0 {
		return 0
	}
	return min(paid/onDemand, 1)
}

// node is one that commitments may pay for, or several that are not of the fleet.
type node struct {
	commitment.Use
	// of is the node of the fleet; nil for others.
	of *consolidate.Node
	// open is how many nodes nothing pays for yet.
	open float64
	// elsewhere means that its NodePool may launch nodes that need no commitment.
	elsewhere bool
}

// billed returns the nodes that commitments may pay for, in the order in which they count as covered: those that are not of the fleet, which stay, then
// those that can be replaced by covered ones alone, the fullest first, then the others.
func billed(cat catalog.State, fleet []consolidate.Node, labels map[string]map[string]string) []node {
	counts := map[catalog.Billed]int{}
	for _, l := range labels {
		if b, ok := catalog.BilledOnDemand(l); ok {
			counts[b]++
		}
	}
	var out []node
	at := map[catalog.Billed]int{}
	for i, u := range cat.Uses(counts) {
		at[catalog.Billed{InstanceType: u.InstanceType, Zone: u.Zone}] = i
		out = append(out, node{Use: u, open: float64(u.Count)})
	}
	for i := range fleet {
		n := &fleet[i]
		b, ok := catalog.BilledOnDemand(labels[n.Name])
		others, priced := at[b]
		if !ok || !priced || n.Price <= 0 || n.Overlaid || catalog.CapacityTypeOf(n.CapacityType).Counted {
			continue
		}
		out[others].open--
		out = append(out, node{Use: out[others].Use, of: n, open: 1, elsewhere: cat.NodePools[n.NodePool].Uncommitted()})
	}
	slices.SortStableFunc(out, func(x, y node) int {
		switch {
		case x.of == nil || y.of == nil:
			return order(x.of == nil, y.of == nil)
		case x.elsewhere != y.elsewhere:
			return order(y.elsewhere, x.elsewhere)
		}
		return cmp.Or(cmp.Compare(y.of.Used, x.of.Used), strings.Compare(x.of.Name, y.of.Name))
	})
	return out
}

// order returns -1 if the first alone is true, 1 if the second is.
func order(x, y bool) int {
	switch {
	case x == y:
		return 0
	case x:
		return -1
	}
	return 1
}

// AddInFlight adds to the labels of nodes those of nodes in flight that have no Node yet.
func AddInFlight(labels map[string]map[string]string, inFlight map[string]catalog.InFlightNode) {
	for _, name := range slices.Sorted(maps.Keys(inFlight)) {
		if n := inFlight[name]; n.NodeName == "" {
			labels["in flight/"+name] = n.ExpectedLabels(n.Labels)
		}
	}
}
