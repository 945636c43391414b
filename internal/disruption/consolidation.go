package disruption

import (
	"cmp"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// ConsolidationFacts are what decides whether the pods of a node may be moved to save money.
type ConsolidationFacts struct {
	Candidate
	// Moving is true where the node is in a move already.
	Moving bool
	// Rest is until when the node is left alone after a move of it was called off; zero for none.
	Rest time.Time
	// NodeAge is the least age of the node; zero for any. The annotation slipway.dev/consolidation-node-age of its NodePool replaces it.
	NodeAge time.Duration
	// Budgets are the PodDisruptionBudgets of the cluster.
	Budgets []PodBudget
}

// BlocksConsolidation returns why the pods of the node may not be moved to save money; empty if they may. passing is true
// where the reason ends by itself, with time, and needs no Event. The Candidate must have a NodePool.
func BlocksConsolidation(f ConsolidationFacts) (why string, passing bool) {
	if why, passing = f.keeps(conditions.ClaimIs(f.Claim, karpv1.ConditionTypeConsolidatable)); why != "" {
		return why, passing
	}
	if why := cmp.Or(Terminating(f.Pods), starting(f.Pods, f.Now)); why != "" {
		return why, true
	}
	return "", false
}

// SoonConsolidated reports whether nothing keeps the node but that pods came or left a short time ago, which ends within seconds.
func SoonConsolidated(f ConsolidationFacts) bool {
	if why, _ := BlocksConsolidation(f); why == "" {
		return false
	}
	why, _ := f.keeps(true)
	return why == "" && f.Pool.Spec.Disruption.ConsolidateAfter.Duration != nil && *f.Pool.Spec.Disruption.ConsolidateAfter.Duration <= soonAtMost
}

// soonAtMost is the longest consolidateAfter that ends soon.
const soonAtMost = 2 * time.Minute

// keeps returns why consolidation leaves the node alone, but for pods that end or start. Quiet means that consolidateAfter has passed.
func (f *ConsolidationFacts) keeps(quiet bool) (why string, passing bool) {
	after := f.Pool.Spec.Disruption.ConsolidateAfter.Duration
	switch {
	case f.Claim.DeletionTimestamp != nil || f.Node.DeletionTimestamp != nil || f.Moving || cordoned(f.Node):
		return "the node is terminating already", true
	case after == nil:
		return fmt.Sprintf("NodePool %s consolidates nothing (consolidateAfter Never)", f.Pool.Name), false
	case f.Pool.Spec.Replicas != nil:
		return fmt.Sprintf("NodePool %s has a fixed number of nodes (spec.replicas)", f.Pool.Name), false
	case !conditions.NodeReady(f.Node):
		return "the node is not Ready", true
	case !quiet:
		return fmt.Sprintf("a pod was added or removed less than %s ago (consolidateAfter)", *after), true
	}
	if least := f.nodeAge(); f.Now.Sub(f.Node.CreationTimestamp.Time) < least {
		return fmt.Sprintf("the node is left alone until it is %s old, at %s", least, f.Node.CreationTimestamp.Add(least).UTC().Format(time.RFC3339)), true
	}
	if f.Now.Before(replacementUntil(f.Claim)) {
		return "the node was launched for the pods of other nodes, which may not be bound yet", true
	}
	if f.Now.Before(f.Rest) {
		return fmt.Sprintf("a move of the node was called off, it is left alone until %s", f.Rest.UTC().Format(time.RFC3339)), true
	}
	if why := BlockOf(f.Candidate, f.Budgets).Why; why != "" {
		return why, false
	}
	return "", false
}

// startingGrace is for how long after its creation a pod that has not started keeps its node.
const startingGrace = 10 * time.Minute

// starting names a pod that has not started; empty for none. The node may have been launched for it, and a move would make it start again.
func starting(pods []*corev1.Pod, now time.Time) string {
	for _, p := range pods {
		if NeedsRoom(p) && p.Status.Phase == corev1.PodPending && now.Sub(p.CreationTimestamp.Time) < startingGrace {
			return fmt.Sprintf("pod %s/%s has not started yet", p.Namespace, p.Name)
		}
	}
	return ""
}

// nodeAge returns the least age of the node.
func (f ConsolidationFacts) nodeAge() time.Duration {
	return catalog.AgeOf(f.Pool.Annotations, catalog.NodeAgeAnnotation, f.NodeAge)
}

// replacementUntil returns until when a node that was launched for the pods of other nodes, and has had no pod, is kept for
// them. If the move was called off, the next move uses the node instead of launching another.
func replacementUntil(c *karpv1.NodeClaim) time.Time {
	joined := conditions.Claim(c, karpv1.ConditionTypeInitialized)
	if c.Annotations[catalog.ReplacesAnnotation] == "" || !c.Status.LastPodEventTime.IsZero() || !joined.IsTrue() {
		return time.Time{}
	}
	return joined.LastTransitionTime.Add(replacementGrace)
}
