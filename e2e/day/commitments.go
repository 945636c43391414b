package day

import "github.com/slipway-k8s/slipway/launcher/catalog/commitment"

// demand is what no nodes for the pods of a moment cost less than, in USD per hour: those that have to be on demand, and those that may be
// interrupted, on spot and on demand.
type demand struct{ steady, spot, onDemand float64 }

// with is the bill of a linear program that divides nodes and pods: what is committed, and what is paid beside. Commitments pay first for what
// has to be on demand, then for a share of the rest.
func (d demand) with(list []commitment.Commitment) float64 {
	amount, steady, spot, onDemand := 0.0, d.steady, d.spot, d.onDemand
	for i := range list {
		c := &list[i]
		amount += c.Cost()
		covers := c.Cost() / (1 - c.Discount) // on demand
		first := min(covers, steady)
		steady -= first
		if covers -= first; onDemand > 0 {
			share := min(covers/onDemand, 1)
			onDemand, spot = onDemand*(1-share), spot*(1-share)
		}
	}
	return amount + steady + spot
}
