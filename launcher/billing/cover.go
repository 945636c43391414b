package billing

import (
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/bill"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// paid is what commitments pay for.
type paid struct {
	// covered is the share of the instances of a type and zone that any commitment pays for.
	covered map[string]float64
	// reserved and plans are what Reserved Instances and Savings Plans pay for.
	reserved, plans part
	// unused is what commitments cost that nothing uses, in USD per hour by ID.
	unused map[string]float64
	// uses is how much of each commitment is used.
	uses []catalog.CommitmentUse
}

// part is what the commitments of some kinds pay for.
type part struct {
	// shares are those of the instances of a type and zone.
	shares map[string]float64
	// perUSD is what the commitments cost per USD on demand of these instances.
	perUSD float64
	// used is what is paid for that, onDemand what it would cost on demand, in USD per hour.
	used, onDemand float64
}

func (p *part) add(u commitment.Use, share float64) {
	p.shares[u.Name] = share
	p.onDemand += share * float64(u.Count) * u.OnDemand
}

func (p *part) done() {
	if p.onDemand > 0 {
		p.perUSD = p.used / p.onDemand
	}
}

// commitments returns what the commitments pay for: the on-demand nodes of the whole cluster use them, in AWS's order.
func (in *Objects) commitments() paid {
	out := paid{unused: map[string]float64{}}
	if len(in.Commitments) == 0 {
		return out
	}
	state := catalog.State{Commitments: in.Commitments, InstanceTypes: in.Types}
	counts := Billed(in.Claims, in.Nodes)
	uses := state.Uses(counts)
	var reserved []commitment.Commitment
	for i := range in.Commitments {
		if in.Commitments[i].Kind == commitment.ReservedInstances {
			reserved = append(reserved, in.Commitments[i])
		}
	}
	all, first := commitment.Apply(in.Commitments, uses), commitment.Apply(reserved, uses)
	out.covered, out.uses = all.Covered, state.CommitmentUses(counts)
	out.reserved.shares, out.plans.shares = map[string]float64{}, map[string]float64{}
	for _, u := range uses {
		// Reserved Instances are applied before all Savings Plans.
		out.reserved.add(u, first.Covered[u.Name])
		out.plans.add(u, max(all.Covered[u.Name]-first.Covered[u.Name], 0))
	}
	for i := range in.Commitments {
		c := &in.Commitments[i]
		cost, amount := c.Cost(), c.Amount()
		if cost <= 0 || amount <= 0 {
			continue
		}
		left := cost * all.Left[i] / amount
		out.unused[c.ID] = left
		if c.Kind == commitment.ReservedInstances {
			out.reserved.used += cost - left
		} else {
			out.plans.used += cost - left
		}
	}
	out.reserved.done()
	out.plans.done()
	return out
}

// Billed counts the nodes that commitments may pay for, and instances without a Node yet. EC2 does not bill instances that shut down or are stopped.
func Billed(claims []*karpv1.NodeClaim, nodes []*corev1.Node) map[catalog.Billed]int {
	over, named := map[string]bool{}, map[string]bool{}
	for _, claim := range claims {
		if !ended(claim).IsZero() {
			over[claim.Status.NodeName] = true
		}
	}
	out := map[catalog.Billed]int{}
	count := func(labels map[string]string) {
		if b, ok := catalog.BilledOnDemand(labels); ok {
			out[b]++
		}
	}
	for _, node := range nodes {
		named[node.Name] = true
		if !over[node.Name] {
			count(node.Labels)
		}
	}
	for _, claim := range claims {
		if claim.Status.ProviderID != "" && !record.StandbyOf(claim).Off() && !named[claim.Status.NodeName] && ended(claim).IsZero() {
			count(claim.Labels)
		}
	}
	return out
}

// cover takes off a node's instance what commitments pay for, and adds what these cost for it. Equal nodes of a zone share what is covered.
func (p *paid) cover(parts *bill.Parts, claim *karpv1.NodeClaim) {
	b, ok := catalog.BilledOnDemand(claim.Labels)
	if !ok {
		return
	}
	name := b.InstanceType + "/" + b.Zone
	parts.Commitments = parts.Instance * (p.plans.shares[name]*p.plans.perUSD + p.reserved.shares[name]*p.reserved.perUSD)
	parts.Instance *= 1 - p.covered[name]
}
