package consolidate

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/node"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// NodeAgeAnnotation on a NodePool is how long its nodes are left alone after they were bought, in place of the launcher's setting.
const NodeAgeAnnotation = catalog.NodeAgeAnnotation

// PodAgeAnnotation on a NodePool is how long its nodes' pods have to have run to be moved almost as readily as old ones, in place of the
// launcher's setting.
const PodAgeAnnotation = catalog.PodAgeAnnotation

// meantFor is how long a node is kept for the pods that it was launched for, from when it joined: as long as package reclaim leaves it.
const meantFor = 2 * time.Minute

// Facts about one node.
type Facts struct {
	// Now is the time of the decision.
	Now time.Time
	// Claim and Node are the node's.
	Claim *karpv1.NodeClaim
	Node  *corev1.Node
	// Pool is its NodePool.
	Pool *karpv1.NodePool
	// Moving says that it is in a move already.
	Moving bool
	// Rest is until when it is left alone, since a move of it was called off; zero for not.
	Rest time.Time
	// NodeAge is how old it has to be, unless the NodePool says otherwise.
	NodeAge time.Duration
	// Protected is why it may not be disrupted: do-not-disrupt, a PodDisruptionBudget, a pod without a controller; empty for nothing.
	Protected string
}

// Blocked says why a node may not be touched; empty if it may. Passing says that it ends by itself, with time: nobody has to be told.
func Blocked(f Facts) (why string, passing bool) {
	after := f.Pool.Spec.Disruption.ConsolidateAfter.Duration
	switch {
	case f.Claim.DeletionTimestamp != nil || f.Node.DeletionTimestamp != nil || f.Moving || cordoned(f.Node):
		return "the node is leaving already", true
	case after == nil:
		return fmt.Sprintf("NodePool %s consolidates nothing (consolidateAfter Never)", f.Pool.Name), false
	case f.Pool.Spec.Replicas != nil:
		return fmt.Sprintf("NodePool %s has a fixed number of nodes (spec.replicas)", f.Pool.Name), false
	case !node.Ready(f.Node):
		return "the node is not Ready", true
	case !record.Is(f.Claim, karpv1.ConditionTypeConsolidatable):
		return fmt.Sprintf("a pod came or went less than %s ago (consolidateAfter)", *after), true
	}
	if age, least := f.Now.Sub(f.Node.CreationTimestamp.Time), f.nodeAge(); age < least {
		return fmt.Sprintf("the node is %s old, and is left alone for %s", age.Round(time.Second), least), true
	}
	if f.Now.Before(meantUntil(f.Claim)) {
		return "the node was launched for the pods of others, which may be on their way", true
	}
	if f.Now.Before(f.Rest) {
		return fmt.Sprintf("a move of it was called off, it is left alone until %s", f.Rest.UTC().Format(time.RFC3339)), true
	}
	return f.Protected, false
}

// nodeAge is how old the node has to be.
func (f Facts) nodeAge() time.Duration {
	return catalog.AgeOf(f.Pool.Annotations, NodeAgeAnnotation, f.NodeAge)
}

// meantUntil is until when a node that was launched for the pods of others, and has had none, is theirs: those of a move that was
// called off find it there when it is decided about them again, in place of another one that would be bought.
func meantUntil(c *karpv1.NodeClaim) time.Time {
	joined := c.StatusConditions().Get(karpv1.ConditionTypeInitialized)
	if c.Annotations[catalog.ReplacesAnnotation] == "" || !c.Status.LastPodEventTime.IsZero() || !joined.IsTrue() {
		return time.Time{}
	}
	return joined.LastTransitionTime.Add(meantFor)
}

func cordoned(node *corev1.Node) bool {
	for _, t := range node.Spec.Taints {
		if t.Key == karpv1.DisruptedTaintKey {
			return true
		}
	}
	return node.Spec.Unschedulable
}
