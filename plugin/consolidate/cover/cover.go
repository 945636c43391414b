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
// AWS pays for nodes of one instance type and zone alike: which of them is covered changes no bill. Where commitments pay for a part of them,
// the emptiest nodes are those that are not covered. So a node saves its price if it is removed and its coverage moves to another one.
func Lower(cat catalog.State, fleet []consolidate.Node, labels map[string]map[string]string) {
	if len(cat.Commitments) == 0 {
		return
	}
	counts := map[catalog.Billed]int{}
	for _, l := range labels {
		if b, ok := catalog.BilledOnDemand(l); ok {
			counts[b]++
		}
	}
	uses := cat.Uses(counts)
	covered := commitment.Apply(cat.Commitments, uses).Covered
	pools := commitment.Pools(cat.Commitments)
	nodes := map[catalog.Billed][]*consolidate.Node{}
	for i := range fleet {
		b, ok := catalog.BilledOnDemand(labels[fleet[i].Name])
		if ok && fleet[i].Price > 0 && !fleet[i].Overlaid && !catalog.CapacityTypeOf(fleet[i].CapacityType).Counted {
			nodes[b] = append(nodes[b], &fleet[i])
		}
	}
	for _, u := range uses {
		b := catalog.Billed{InstanceType: u.InstanceType, Zone: u.Zone}
		list := nodes[b]
		slices.SortFunc(list, func(x, y *consolidate.Node) int {
			return cmp.Or(cmp.Compare(y.Used, x.Used), strings.Compare(x.Name, y.Name))
		})
		// Nodes that are not of the fleet stay: they are covered first.
		left := covered[u.Name]*float64(u.Count) - float64(u.Count-len(list))
		for _, n := range list {
			share := min(max(left, 0), 1)
			left -= share
			n.Price -= share * (u.OnDemand - coveredPrice(pools, u))
		}
	}
}

// coveredPrice returns what is counted for the instance of a node that commitments pay for: as the first ones do that pay for it.
func coveredPrice(pools []commitment.Pool, u commitment.Use) float64 {
	for i := range pools {
		if draw, ok := pools[i].Draw(u.InstanceType, u.Zone, u.OnDemand); ok {
			return pools[i].Price(draw, u.OnDemand)
		}
	}
	return u.OnDemand
}

// AddInFlight adds to the labels of nodes those of nodes in flight that have no Node yet.
func AddInFlight(labels map[string]map[string]string, inFlight map[string]catalog.InFlightNode) {
	for _, name := range slices.Sorted(maps.Keys(inFlight)) {
		if n := inFlight[name]; n.NodeName == "" {
			labels["in flight/"+name] = n.ExpectedLabels(n.Labels)
		}
	}
}
