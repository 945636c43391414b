package day

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
	"github.com/slipway-k8s/slipway/plugin/consolidate"
	"github.com/slipway-k8s/slipway/plugin/consolidate/cover"
)

// payCommitments pays the commitments of a minute, and takes off the bill what they pay for. It returns what runs on demand, in USD per hour.
func (c *cluster) payCommitments() float64 {
	counts, sum := map[catalog.Billed]int{}, 0.0
	for _, n := range c.nodes {
		if b, ok := catalog.BilledOnDemand(n.object.Labels); ok {
			counts[b]++
			sum += c.market.OnDemand[b.InstanceType]
		}
	}
	var uses []commitment.Use
	for b, n := range counts {
		uses = append(uses, commitment.Use{Name: b.InstanceType + "/" + b.Zone, Count: n, InstanceType: b.InstanceType, Zone: b.Zone, OnDemand: c.market.OnDemand[b.InstanceType]})
	}
	list := c.market.Commitments
	paid := commitment.Apply(list, uses)
	for _, u := range uses {
		c.bill.Dollars -= paid.Covered[u.Name] * float64(u.Count) * u.OnDemand / 60
	}
	for i := range list {
		amount := list[i].Amount()
		c.bill.Dollars += amount / 60
		c.bill.Committed += amount / 60
		c.bill.Used += (amount - paid.Left[i]) / 60
	}
	return sum
}

// Covered returns what a day that was replayed without commitments would have cost with some, if they had paid for its nodes as they were.
func (b *Bill) Covered(list []commitment.Commitment) float64 {
	usd := b.Metered
	for _, runs := range b.OnDemand {
		for i := range list {
			c := &list[i]
			paid := min(runs, c.Amount()/(1-c.Discount))
			runs -= paid
			usd += (c.Amount() - paid) / 60
		}
	}
	return usd
}

// cover lowers the prices of nodes that commitments pay for.
func (c *cluster) cover(fleet []consolidate.Node) {
	if len(c.market.Commitments) == 0 {
		return
	}
	state := catalog.State{Commitments: c.market.Commitments, InstanceTypes: c.types, NodePools: c.known}
	labels := map[string]map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.nodes)) {
		labels[name] = c.nodes[name].object.Labels
	}
	cover.Lower(state, fleet, labels)
}

// demand is what no nodes for the pods of a moment cost less than, in USD per hour: those that have to be on demand, and those that may be
// interrupted, on spot and on demand.
type demand struct{ steady, spot, onDemand float64 }

func (c *cluster) demand(ctx context.Context) (demand, error) {
	out := demand{}
	for _, one := range []struct {
		usd        *float64
		pool, kind string
	}{{&out.steady, "steady", karpv1.CapacityTypeOnDemand}, {&out.spot, "flexible", karpv1.CapacityTypeSpot}, {&out.onDemand, "flexible", karpv1.CapacityTypeOnDemand}} {
		var err error
		if *one.usd, err = c.boundOf(ctx, nodePool(one.pool, one.kind)); err != nil {
			return out, err
		}
	}
	return out, nil
}

// with is the bill of a linear program that divides nodes and pods: what is committed, and what is paid beside. Commitments pay first for what
// has to be on demand, then for a share of the rest.
func (d demand) with(list []commitment.Commitment) float64 {
	amount, steady, spot, onDemand := 0.0, d.steady, d.spot, d.onDemand
	for i := range list {
		c := &list[i]
		amount += c.Amount()
		covers := c.Amount() / (1 - c.Discount) // on demand
		first := min(covers, steady)
		steady -= first
		if covers -= first; onDemand > 0 {
			share := min(covers/onDemand, 1)
			onDemand, spot = onDemand*(1-share), spot*(1-share)
		}
	}
	return amount + steady + spot
}

// Commit returns a Compute Savings Plan that pays for a share of the least that the day's pods cost on demand at any time.
func Commit(ctx context.Context, cfg Config, share, discount float64) ([]commitment.Commitment, error) {
	m, err := newMarket(rand.New(rand.NewPCG(cfg.Seed, 2)))
	if err != nil {
		return nil, err
	}
	c := newCluster(ctx, m)
	least := 0.0
	for minute, change := range cfg.changes() {
		for _, object := range change.come {
			c.pods[object.Name] = &pod{object: object}
		}
		for _, name := range change.gone {
			delete(c.pods, name)
		}
		if minute%boundEvery != 0 {
			continue
		}
		d, err := c.demand(ctx)
		if err != nil {
			return nil, err
		}
		if sum := d.steady + d.onDemand; least == 0 || sum < least {
			least = sum
		}
	}
	return []commitment.Commitment{{ID: "sp", Kind: commitment.ComputeSavingsPlan, USDPerHour: share * least * (1 - discount), Discount: discount, Share: 1}}, nil
}
