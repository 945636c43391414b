package commitment

import (
	"cmp"
	"slices"
	"strings"
)

// Use is a node that runs on demand, or several equal ones.
type Use struct {
	// Name of the node, or of the nodes.
	Name string
	// Count is how many nodes it is; 0 counts as 1.
	Count int
	// InstanceType and Zone of its instance.
	InstanceType, Zone string
	// OnDemand is the price of its instance in USD per hour.
	OnDemand float64
}

// Coverage is what commitments pay for.
type Coverage struct {
	// Covered is the share, up to 1, of the instances of each use that commitments pay for, by the name of the use; no entry for none.
	Covered map[string]float64
	// Left is what each commitment has left, in the unit of its Amount, in the order of the commitments.
	Left []float64
}

// candidate is a use that a commitment could pay for. It draws so much for each of its nodes.
type candidate struct {
	use  int
	draw float64
}

// Apply returns which nodes the commitments pay for, in AWS's order (Savings Plans user guide, "How Savings Plans apply to your AWS usage"; EC2
// User Guide, "How Reserved Instances are applied"): Reserved Instances of a zone, then those of a region from the smallest node to the
// largest, then EC2 Instance Savings Plans, then Compute Savings Plans. A Savings Plan pays first for the node that saves the largest share. Of
// equal nodes it is the first by name: which one it is changes no bill. The last node that a commitment pays for may be covered in part.
func Apply(commitments []Commitment, uses []Use) Coverage {
	out := Coverage{Covered: map[string]float64{}, Left: make([]float64, len(commitments))}
	open := make([]float64, len(uses)) // the share that nothing pays for yet
	for i := range open {
		open[i] = 1
	}
	order := make([]int, len(commitments))
	for i := range commitments {
		order[i], out.Left[i] = i, commitments[i].Amount()
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(rank(&commitments[a]), rank(&commitments[b])), strings.Compare(commitments[a].ID, commitments[b].ID))
	})
	for _, i := range order {
		for _, n := range candidates(&commitments[i], uses, open) {
			if out.Left[i] <= 0 {
				break
			}
			all := n.draw * float64(max(uses[n.use].Count, 1))
			share := min(open[n.use], out.Left[i]/all)
			open[n.use] -= share
			out.Left[i] = max(out.Left[i]-share*all, 0)
			out.Covered[uses[n.use].Name] = 1 - open[n.use]
		}
	}
	return out
}

// rank orders commitments as AWS applies them.
func rank(c *Commitment) int {
	switch {
	case c.Kind == ReservedInstances && c.Zone != "":
		return 0
	case c.Kind == ReservedInstances:
		return 1
	case c.Kind == EC2InstanceSavingsPlan:
		return 2
	}
	return 3
}

// candidates returns the nodes that the commitment could pay for, in the order in which it does.
func candidates(c *Commitment, uses []Use, open []float64) []candidate {
	var out []candidate
	for i, u := range uses {
		if draw, ok := c.Draw(u.InstanceType, u.Zone, u.OnDemand); ok && draw > 0 && open[i] > 0 {
			out = append(out, candidate{i, draw})
		}
	}
	slices.SortStableFunc(out, func(a, b candidate) int {
		first := cmp.Compare(a.draw, b.draw)
		if c.Kind != ReservedInstances {
			// The larger saving is the smaller ratio of the rate to the on-demand price; of equal ones the lower rate is first.
			first = cmp.Or(cmp.Compare(a.draw*uses[b.use].OnDemand, b.draw*uses[a.use].OnDemand), first)
		}
		return cmp.Or(first, strings.Compare(uses[a.use].Name, uses[b.use].Name))
	})
	return out
}

// Fits returns how many more nodes a commitment with so much left pays for whole.
func (c *Commitment) Fits(left float64, instanceType, zone string, onDemand float64) int {
	draw, ok := c.Draw(instanceType, zone, onDemand)
	if !ok || draw <= 0 {
		return 0
	}
	const rounding = 1e-9 // An amount that was computed for n nodes pays for n.
	return int(left/draw + rounding)
}
