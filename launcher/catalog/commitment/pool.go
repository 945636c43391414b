package commitment

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Pool is commitments that pay for the same nodes, such as all Compute Savings Plans of an account: to a planner they are one amount.
type Pool struct {
	// Name is the ID of the first commitment, and how many more there are.
	Name string
	// Kind is that of the commitments.
	Kind Kind
	// Amount is what they have together, in the unit of Draw: USD per hour, or normalized units or instances.
	Amount float64
	// Of are the commitments, as indices of the list.
	Of []int

	list []*Commitment
}

// Pools returns the commitments of a list in pools, in the order in which AWS applies them. Commitments of which the cluster has no share
// are left out.
func Pools(list []Commitment) []Pool {
	var out []Pool
	at := map[string]int{}
	for i := range list {
		c := &list[i]
		if c.Amount() <= 0 {
			continue
		}
		key := c.scope()
		k, ok := at[key]
		if !ok {
			k = len(out)
			at[key], out = k, append(out, Pool{Name: c.ID, Kind: c.Kind})
		}
		p := &out[k]
		p.Amount, p.list, p.Of = p.Amount+c.Amount(), append(p.list, c), append(p.Of, i)
	}
	for i := range out {
		if n := len(out[i].Of) - 1; n > 0 {
			out[i].Name = fmt.Sprintf("%s and %d more", out[i].Name, n)
		}
	}
	slices.SortStableFunc(out, func(a, b Pool) int {
		return cmp.Or(cmp.Compare(rank(a.list[0]), rank(b.list[0])), strings.Compare(a.Name, b.Name))
	})
	return out
}

// scope is the same for commitments that pay for the same nodes.
func (c *Commitment) scope() string {
	family, _, _ := strings.Cut(c.InstanceType, ".")
	switch {
	case c.Kind != ReservedInstances:
		return string(c.Kind) + "/" + c.Family
	case c.Flexible():
		return string(c.Kind) + "/" + family
	}
	return string(c.Kind) + "/" + c.InstanceType + "/" + c.Zone
}

// Draw returns how much of the pool a node uses that it pays for, and false if some commitment of it does not pay for such nodes. Where
// their rates differ, it is the mean.
func (p *Pool) Draw(instanceType, zone string, onDemand float64) (float64, bool) {
	sum := 0.0
	for _, c := range p.list {
		draw, ok := c.Draw(instanceType, zone, onDemand)
		if !ok || draw <= 0 {
			return 0, false
		}
		sum += draw * c.Amount()
	}
	return sum / p.Amount, true
}

// LeftOf returns what the pool has left, of what each commitment of the list has.
func (p *Pool) LeftOf(left []float64) float64 {
	sum := 0.0
	for _, i := range p.Of {
		sum += left[i]
	}
	return sum
}

// idle is the share of what a node costs on demand, or at the rate of a Savings Plan, that a planner counts for a node that a commitment
// pays for. Nothing more is paid for it. But what a node uses of a commitment is not left for the next one: of two nodes that are paid for,
// the smaller one is better, unless the larger one saves more than this elsewhere. Spot instances cost ten times as much at least.
const idle = 0.01

// Price returns what a planner counts for a node that draws so much of the pool, in USD per hour.
func (p *Pool) Price(draw, onDemand float64) float64 {
	if p.Kind == ReservedInstances {
		return idle * onDemand
	}
	return idle * draw
}
