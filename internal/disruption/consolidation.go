package disruption

import (
	"fmt"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// DefaultNodeAge is how long consolidation leaves a node alone after it was bought, where neither the launcher's settings nor its
// NodePool say otherwise: its pods have hardly started.
const DefaultNodeAge = 10 * time.Minute

// ConsolidationFacts are what a decision rests on whether the pods of a node may be moved to save money.
type ConsolidationFacts struct {
	Candidate
	// Moving is true where the node is in a move already.
	Moving bool
	// Rest is until when the node is left alone, because a move of it was called off; zero for not.
	Rest time.Time
	// NodeAge is how old the node has to be, unless its NodePool says otherwise by slipway.dev/consolidation-node-age.
	NodeAge time.Duration
	// Budgets are the PodDisruptionBudgets of the cluster.
	Budgets []PodBudget
}

// BlocksConsolidation says why the pods of the node may not be moved to save money; empty if they may. passing is true where the
// reason ends by itself, with time: it needs no Event. The Candidate has a NodePool.
func BlocksConsolidation(f ConsolidationFacts) (why string, passing bool) {
	after := f.Pool.Spec.Disruption.ConsolidateAfter.Duration
	switch {
	case f.Claim.DeletionTimestamp != nil || f.Node.DeletionTimestamp != nil || f.Moving || cordoned(f.Node):
		return "the node is leaving already", true
	case after == nil:
		return fmt.Sprintf("NodePool %s consolidates nothing (consolidateAfter Never)", f.Pool.Name), false
	case f.Pool.Spec.Replicas != nil:
		return fmt.Sprintf("NodePool %s has a fixed number of nodes (spec.replicas)", f.Pool.Name), false
	case !conditions.NodeReady(f.Node):
		return "the node is not Ready", true
	case !conditions.ClaimIs(f.Claim, karpv1.ConditionTypeConsolidatable):
		return fmt.Sprintf("a pod came or went less than %s ago (consolidateAfter)", *after), true
	}
	if age, least := f.Now.Sub(f.Node.CreationTimestamp.Time), f.nodeAge(); age < least {
		return fmt.Sprintf("the node is %s old, and is left alone for %s", age.Round(time.Second), least), true
	}
	if f.Now.Before(replacementUntil(f.Claim)) {
		return "the node was launched for the pods of others, which may be on their way", true
	}
	if f.Now.Before(f.Rest) {
		return fmt.Sprintf("a move of it was called off, it is left alone until %s", f.Rest.UTC().Format(time.RFC3339)), true
	}
	if why := BlockOf(f.Candidate, f.Budgets).Why; why != "" {
		return why, false
	}
	if why := Terminating(f.Pods); why != "" {
		return why, true
	}
	return "", false
}

// nodeAge is how old the node has to be.
func (f ConsolidationFacts) nodeAge() time.Duration {
	return catalog.AgeOf(f.Pool.Annotations, catalog.NodeAgeAnnotation, f.NodeAge)
}

// replacementUntil is until when a node that was launched for the pods of others, and has had none, is kept for them: those of a
// move that was called off find it there when the next move is decided, in place of another one that would be bought.
func replacementUntil(c *karpv1.NodeClaim) time.Time {
	joined := conditions.Claim(c, karpv1.ConditionTypeInitialized)
	if c.Annotations[catalog.ReplacesAnnotation] == "" || !c.Status.LastPodEventTime.IsZero() || !joined.IsTrue() {
		return time.Time{}
	}
	return joined.LastTransitionTime.Add(replacementGrace)
}
