package billing

import (
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/bill"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
)

// paid is what commitments pay for.
type paid struct {
	// covered and plans are the shares of the instances of a type and zone that any commitment, and that Savings Plans, pay for.
	covered, plans map[string]float64
	// perUSD is what Savings Plans cost per USD on demand of the instances that they pay for.
	perUSD float64
	// unused is what Savings Plans have left, in USD per hour by ID.
	unused map[string]float64
	// uses is how much of each commitment is used.
	uses []catalog.CommitmentUse
}

// commitments returns what the commitments pay for: the on-demand nodes of the whole cluster use them, in AWS's order.
func (in *Objects) commitments(nodes map[string]*corev1.Node) paid {
	out := paid{unused: map[string]float64{}}
	if len(in.Commitments) == 0 {
		return out
	}
	state := catalog.State{Commitments: in.Commitments, InstanceTypes: in.Types}
	counts := in.billed(nodes)
	uses := state.Uses(counts)
	var reserved []commitment.Commitment
	for i := range in.Commitments {
		if in.Commitments[i].Kind == commitment.ReservedInstances {
			reserved = append(reserved, in.Commitments[i])
		}
	}
	all, first := commitment.Apply(in.Commitments, uses), commitment.Apply(reserved, uses)
	out.covered, out.plans, out.uses = all.Covered, map[string]float64{}, state.CommitmentUses(counts)
	onDemand, used := 0.0, 0.0
	for _, u := range uses {
		// Reserved Instances are applied before all Savings Plans.
		out.plans[u.Name] = max(all.Covered[u.Name]-first.Covered[u.Name], 0)
		onDemand += out.plans[u.Name] * float64(u.Count) * u.OnDemand
	}
	for i := range in.Commitments {
		if c := &in.Commitments[i]; c.Kind != commitment.ReservedInstances {
			used += c.Amount() - all.Left[i]
			out.unused[c.ID] = all.Left[i]
		}
	}
	if onDemand > 0 {
		out.perUSD = used / onDemand
	}
	return out
}

// billed counts the nodes of the cluster that commitments may pay for, and instances without a Node yet.
func (in *Objects) billed(nodes map[string]*corev1.Node) map[catalog.Billed]int {
	out := map[catalog.Billed]int{}
	count := func(labels map[string]string) {
		if b, ok := catalog.BilledOnDemand(labels); ok {
			out[b]++
		}
	}
	for i := range in.Nodes {
		count(in.Nodes[i].Labels)
	}
	for i := range in.Claims {
		if claim := &in.Claims[i]; claim.Status.ProviderID != "" && nodes[claim.Status.NodeName] == nil {
			count(claim.Labels)
		}
	}
	return out
}

// cover takes off a node's instance what commitments pay for, and adds what Savings Plans cost for it. Equal nodes of a zone share what is
// covered. What Reserved Instances cost is not known here.
func (p *paid) cover(parts *bill.Parts, claim *karpv1.NodeClaim) {
	b, ok := catalog.BilledOnDemand(claim.Labels)
	if !ok {
		return
	}
	name := b.InstanceType + "/" + b.Zone
	parts.Commitments = parts.Instance * p.plans[name] * p.perUSD
	parts.Instance *= 1 - p.covered[name]
}
