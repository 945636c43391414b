package planner

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/simulate"
)

// Bound is the answer of /local/v1/bound: what the nodes of NodePools cost, and what no set of nodes for their pods can cost less than.
type Bound struct {
	// Price of the nodes at the planner's prices, in USD per hour.
	Price float64 `json:"usdPerHour"`
	// Unpriced is how many nodes have no known price, such as those in capacity reservations: neither they nor their pods count in any figure.
	Unpriced int `json:"unpriced,omitempty"`
	// Planned is what the planner would pay if all their pods were planned from scratch.
	Planned float64 `json:"plannedUSDPerHour"`
	// Least is the proven lower bound, in USD per hour.
	Least float64 `json:"lowerBoundUSDPerHour"`
	// Unplaced is how many of the pods would have no node: they count in Price alone.
	Unplaced int `json:"unplaced,omitempty"`
	// Notes are sentences about what was assumed.
	Notes []string `json:"notes"`
}

func (s *Server) lowerBound(ctx context.Context) (Bound, error) {
	return s.bound.get(boundFresh, boundRests, func() (Bound, error) {
		w, err := s.world(ctx)
		if err != nil {
			return Bound{}, err
		}
		w.Market = w.Market.Open() // The nodes that run were bought before EC2 refused others.
		bound := *w.Objects
		bound.Pods, bound.NodeClaims = nil, nil // A node that boots has no pods yet.
		for _, p := range w.Objects.Pods {      // Pending pods have no node that costs anything.
			if p.Spec.NodeName != "" {
				bound.Pods = append(bound.Pods, p)
			}
		}
		now, err := simulate.Run(ctx, &bound, w.Market, w.Options)
		if err != nil {
			return Bound{}, err
		}
		out := Bound{Notes: notes(now)}
		before, _ := now.Nodes(ctx)
		var priced []string
		for _, n := range before {
			if n.Price > 0 {
				priced = append(priced, n.Name)
			}
		}
		out.Price, out.Unpriced = priceOf(before)
		empty, err := simulate.Without(&bound, priced)
		if err != nil {
			return Bound{}, err
		}
		// Nodes of others, and those without a price, keep their pods and take none of these.
		empty.Nodes = closed(empty.Nodes)
		scratch, err := simulate.Run(ctx, empty, w.Market, w.Options)
		if err != nil {
			return Bound{}, err
		}
		out.Unplaced = unplaced(scratch)
		out.Planned, out.Least = catalog.Micro(scratch.Plan.CostPerHour), catalog.Micro(scratch.LowerBound(ctx))
		return out, ctx.Err()
	})
}

// priceOf returns what nodes cost, in USD per hour, and how many of them have no known price.
func priceOf(nodes []simulate.NodeUse) (usd float64, unpriced int) {
	for _, n := range nodes {
		usd += n.Price
		if n.Price == 0 {
			unpriced++
		}
	}
	return catalog.Micro(usd), unpriced
}

// closed returns the nodes cordoned.
func closed(nodes []*corev1.Node) []*corev1.Node {
	out := make([]*corev1.Node, 0, len(nodes))
	for _, n := range nodes {
		one := *n
		one.Spec.Unschedulable = true
		out = append(out, &one)
	}
	return out
}

// unplaced returns how many pods have no place.
func unplaced(o *simulate.Outcome) int {
	n := 0
	for _, u := range o.Plan.Unplaced {
		n += len(u.Pods)
	}
	return n
}
