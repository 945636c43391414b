package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/consolidate"
	"github.com/slipway-k8s/slipway/plugin/consolidate/cover"
)

// fleet returns the nodes of the input's NodePools for consolidation. podAge is the age at which moving a pod costs twice as
// much.
func (o *observed) fleet(cat catalog.State, podAge func(*karpv1.NodePool) time.Duration) []consolidate.Node {
	out := make([]consolidate.Node, 0, len(o.candidates))
	for i := range o.candidates {
		c := &o.candidates[i]
		kept := o.buffers[c.Node.Name]
		var moving []consolidate.Pod
		for _, p := range c.Pods {
			if disruption.Occupies(p) {
				moving = append(moving, consolidate.Pod{
					Name: p.Namespace + "/" + p.Name, Weight: consolidate.Weight(p), CPU: consolidate.RequestedCPU(p),
					Fresh: consolidate.Fresh(p, o.now, podAge(c.Pool)),
				})
			}
		}
		// As in the scheduler: the pods of a buffer move with their node.
		for _, p := range kept {
			moving = append(moving, consolidate.Pod{Name: p.Namespace + "/" + p.Name, Weight: consolidate.Weight(p), CPU: consolidate.RequestedCPU(p), Fresh: 1})
		}
		node := priced(cat, c.Node, slices.Concat(c.Pods, kept), moving)
		node.Policy = consolidate.Policy(cmp.Or(c.Pool.Spec.Disruption.ConsolidationPolicy, karpv1.ConsolidationPolicyWhenEmptyOrUnderutilized))
		if len(node.Pods) == 0 {
			node.Disrupted = disruption.BudgetNodeOf(c.Claim, c.Node).Disrupted
			node.Blocked = o.emptyBlocked(*c, node.Disrupted)
		} else {
			node.Blocked = o.blocked(*c, node.Offer)
		}
		out = append(out, node)
	}
	lower(cat, out, o.labels)
	return out
}

// priced returns a node of a NodePool with its price by the catalog. Of its pods, moving are those that an interruption ends.
func priced(cat catalog.State, node *corev1.Node, pods []*corev1.Pod, moving []consolidate.Pod) consolidate.Node {
	out := consolidate.Node{
		Name: node.Name, Used: consolidate.Used(node, pods), Pods: moving,
		Offer: consolidate.Offer{
			NodePool: node.Labels[karpv1.NodePoolLabelKey], InstanceType: node.Labels[corev1.LabelInstanceTypeStable],
			Zone: node.Labels[corev1.LabelTopologyZone], CapacityType: node.Labels[karpv1.CapacityTypeLabelKey],
		},
	}
	out.SetPrice(cat, pods)
	return out
}

// lower lowers the prices of the nodes that commitments pay for. Labels are those of all nodes of the input, by name.
func lower(cat catalog.State, fleet []consolidate.Node, labels map[string]map[string]string) {
	all := maps.Clone(labels)
	cover.AddInFlight(all, cat.InFlight)
	cover.Lower(cat, fleet, all)
}

// blocked returns why the pods of a node may not be moved; empty if they may.
func (o *observed) blocked(c disruption.Candidate, offer consolidate.Offer) string {
	if !conditions.ClaimIs(c.Claim, karpv1.ConditionTypeInitialized) {
		return "the node is not initialized yet"
	}
	c.DisruptBare = o.disruptBare
	block := disruption.BlocksConsolidation(disruption.ConsolidationFacts{Candidate: c, Budgets: o.podBudgets})
	return cmp.Or(block.Why, offer.Unpriced())
}

// emptyBlocked returns why an empty node is not removed; empty if it is. Its price does not matter: nothing is launched for it. A
// node that is disrupted already has its place in the budgets, which may be overdrawn.
func (o *observed) emptyBlocked(c disruption.Candidate, disrupted bool) string {
	facts := disruption.EmptyFactsOf(c)
	if disruption.Tainted(c.Node) {
		facts.CordonedBy = "it has the taint " + karpv1.DisruptedTaintKey
	}
	decision := disruption.DecideEmpty(facts)
	if decision.Verdict != disruption.Reclaim {
		if c.Pool.Spec.Replicas != nil {
			return fmt.Sprintf("NodePool %s has a fixed number of nodes (spec.replicas)", c.Pool.Name)
		}
		return decision.Reason
	}
	if why := disruption.BlocksEmpty(c, o.podBudgets); why != "" {
		return why
	}
	if !disrupted {
		return ""
	}
	tally := o.tallies[c.Pool.Name]
	if allowed, err := disruption.AllowedDisruptions(c.Pool, tally.Nodes, karpv1.DisruptionReasonEmpty, o.now); err != nil || tally.Disrupted > allowed {
		return consolidate.OverBudget(c.Pool.Name)
	}
	return ""
}
