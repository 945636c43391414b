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
	Budgets PodBudgets
}

// ConsolidationBlock is why the pods of a node may not be moved to save money; the zero value means that they may.
type ConsolidationBlock struct {
	// Why is for people.
	Why string
	// Passing is true where it ends by itself, with time, and needs no Event.
	Passing bool
	// Soon is true where nothing keeps the node but that pods came or left a short time ago, which ends within seconds.
	Soon bool
	// OfNodePool is true where the settings of the NodePool keep all of its nodes.
	OfNodePool bool
}

// BlocksConsolidation returns why the pods of the node may not be moved to save money. The Candidate must have a NodePool.
func BlocksConsolidation(f ConsolidationFacts) ConsolidationBlock {
	if block := f.excluded(); block.Why != "" {
		return block
	}
	after := *f.Pool.Spec.Disruption.ConsolidateAfter.Duration
	keeps := f.keeps()
	settles := ConsolidationBlock{Passing: true, Soon: keeps.Why == "" && after <= soonAtMost}
	if !conditions.ClaimIs(f.Claim, karpv1.ConditionTypeConsolidatable) {
		settles.Why = fmt.Sprintf("a pod was added or removed less than %s ago (consolidateAfter)", after)
		return settles
	}
	if keeps.Why != "" {
		return keeps
	}
	if settles.Why = cmp.Or(Terminating(f.Pods), starting(f.Pods, f.Now)); settles.Why != "" {
		return settles
	}
	return ConsolidationBlock{}
}

// soonAtMost is the longest consolidateAfter that ends soon.
const soonAtMost = 2 * time.Minute

// excluded returns why the node is none that consolidation looks at.
func (f *ConsolidationFacts) excluded() ConsolidationBlock {
	switch {
	case f.Claim.DeletionTimestamp != nil || f.Node.DeletionTimestamp != nil || f.Moving || cordoned(f.Node):
		return ConsolidationBlock{Why: "the node is terminating already", Passing: true}
	case f.Pool.Spec.Disruption.ConsolidateAfter.Duration == nil:
		return ConsolidationBlock{Why: fmt.Sprintf("NodePool %s consolidates nothing (consolidateAfter Never)", f.Pool.Name), OfNodePool: true}
	case f.Pool.Spec.Replicas != nil:
		return ConsolidationBlock{Why: fmt.Sprintf("NodePool %s has a fixed number of nodes (spec.replicas)", f.Pool.Name), OfNodePool: true}
	case !conditions.NodeReady(f.Node):
		return ConsolidationBlock{Why: "the node is not Ready", Passing: true}
	}
	return ConsolidationBlock{}
}

// keeps returns why consolidation leaves the node alone although no pod comes, ends or starts.
func (f *ConsolidationFacts) keeps() ConsolidationBlock {
	if least := f.nodeAge(); f.Now.Sub(f.Node.CreationTimestamp.Time) < least {
		until := f.Node.CreationTimestamp.Add(least).UTC().Format(time.RFC3339)
		return ConsolidationBlock{Why: fmt.Sprintf("the node is left alone until it is %s old, at %s", least, until), Passing: true}
	}
	if f.Now.Before(replacementUntil(f.Claim)) {
		return ConsolidationBlock{Why: "the node was launched for the pods of other nodes, which may not be bound yet", Passing: true}
	}
	if f.Now.Before(f.Rest) {
		until := f.Rest.UTC().Format(time.RFC3339)
		return ConsolidationBlock{Why: "a move of the node was called off, it is left alone until " + until, Passing: true}
	}
	return ConsolidationBlock{Why: BlockOf(f.Candidate, f.Budgets).Why}
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
