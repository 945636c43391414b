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
func Lower(cat catalog.State, fleet []consolidate.Node, labels map[string]map[string]string) {
	if len(cat.Commitments) == 0 {
		return
	}
	nodes := billed(cat, fleet, labels)
	for _, pool := range commitment.Pools(cat.Commitments) {
		left := pool.Amount
		for i := range nodes {
			n := &nodes[i]
			draw, ok := pool.Draw(n.InstanceType, n.Zone, n.OnDemand)
			if !ok || n.open <= 0 || left <= 0 {
				continue
			}
			share := min(n.open, left/draw)
			left -= share * draw
			n.open -= share
			if n.of != nil {
				n.of.Price -= share * (n.OnDemand - pool.Price(draw, n.OnDemand))
			}
		}
	}
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
