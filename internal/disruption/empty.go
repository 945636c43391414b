package disruption

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// replacementGrace is how long a node that replaces another is kept after it joined, for pods that are not bound yet.
const replacementGrace = 2 * time.Minute

// EmptyVerdict is what to do with a node that may be empty.
type EmptyVerdict string

// The verdicts of DecideEmpty.
const (
	// Keep keeps the node until something changes.
	Keep EmptyVerdict = "keep"
	// Wait keeps the node until EmptyDecision.At, when it is decided again.
	Wait EmptyVerdict = "wait"
	// Reclaim removes the node now, within budgets and if the scheduler agrees.
	Reclaim EmptyVerdict = "reclaim"
)

// EmptyFacts are what decides whether a node is removed because it is empty.
type EmptyFacts struct {
	// Now is the time of the decision.
	Now time.Time
	// Deleting is true where the NodeClaim or its Node is being deleted.
	Deleting bool
	// InitializedAt is when the node became initialized; zero before.
	InitializedAt time.Time
	// ConsolidateAfter is that of the NodePool; nil means Never, or that there is no NodePool.
	ConsolidateAfter *time.Duration
	// LastPodEvent is when a pod was last added to the node or removed; zero for never.
	LastPodEvent time.Time
	// Pods are bound to the node.
	Pods []*corev1.Pod
	// Protection is that of karpenter.sh/do-not-disrupt on the Node or NodeClaim.
	Protection Protection
	// Replaces is true where the node was launched for the pods of other nodes.
	Replaces bool
	// CordonedBy names the owner of a cordon that is not reclaim's; empty where there is none.
	CordonedBy string
}

// EmptyFactsOf returns the facts that the objects show. LastPodEvent comes from the NodeClaim's status. CordonedBy is left
// empty.
func EmptyFactsOf(c Candidate) EmptyFacts {
	f := EmptyFacts{
		Now: c.Now, Deleting: c.Claim.DeletionTimestamp != nil || c.Node.DeletionTimestamp != nil, Pods: c.Pods,
		LastPodEvent: c.Claim.Status.LastPodEventTime.Time, Replaces: c.Claim.Annotations[catalog.ReplacesAnnotation] != "",
	}
	if joined := conditions.Claim(c.Claim, karpv1.ConditionTypeInitialized); joined.IsTrue() {
		f.InitializedAt = joined.LastTransitionTime.Time
	}
	if c.Pool != nil && c.Pool.Spec.Replicas == nil {
		f.ConsolidateAfter = c.Pool.Spec.Disruption.ConsolidateAfter.Duration
	}
	f.Protection = ProtectionOfNode(c.Node.Annotations, c.Node.CreationTimestamp.Time, c.Now)
	if !f.Protection.Active {
		f.Protection = ProtectionOfNode(c.Claim.Annotations, c.Claim.CreationTimestamp.Time, c.Now)
	}
	return f
}

// EmptyDecision is the decision about one node.
type EmptyDecision struct {
	// Verdict says what to do.
	Verdict EmptyVerdict
	// At is when to decide again. It is set for Wait, and for Keep where only the condition Consolidatable changes then.
	At time.Time
	// Consolidatable is true where no pod was added or removed for consolidateAfter.
	Consolidatable bool
	// Reason explains the verdict to users.
	Reason string
}

// DecideEmpty decides whether a node is removed because it is empty, unless BlocksEmpty keeps it.
func DecideEmpty(f EmptyFacts) EmptyDecision {
	switch {
	case f.Deleting:
		return EmptyDecision{Verdict: Keep, Reason: "the node is terminating already"}
	case f.InitializedAt.IsZero():
		return EmptyDecision{Verdict: Keep, Reason: "the node is not initialized yet"}
	case f.ConsolidateAfter == nil:
		return decideNever(f)
	}
	quiet := f.InitializedAt
	if f.LastPodEvent.After(quiet) {
		quiet = f.LastPodEvent
	}
	quiet = quiet.Add(*f.ConsolidateAfter)
	out := EmptyDecision{Verdict: Keep, Consolidatable: !f.Now.Before(quiet)}
	if !out.Consolidatable {
		out.At = quiet
	}
	if pod := Occupant(f.Pods); pod != nil {
		out.Reason = fmt.Sprintf("pod %s/%s is on the node", pod.Namespace, pod.Name)
		return out
	}
	if f.CordonedBy != "" {
		out.Reason = "the node is cordoned: " + f.CordonedBy
		return out
	}
	if p := f.Protection; p.Active {
		out.Reason = fmt.Sprintf("the node has the %q annotation", karpv1.DoNotDisruptAnnotationKey)
		if !p.Until.IsZero() {
			return waitFor(out, p.Until)
		}
		return out
	}
	// A node that has had a pod has served its purpose, and is treated like any other.
	if until := f.InitializedAt.Add(replacementGrace); f.Replaces && f.LastPodEvent.IsZero() && f.Now.Before(until) {
		out.Reason = "the node replaces another, whose pods may not be bound yet"
		return waitFor(out, until)
	}
	if !out.Consolidatable {
		out.Reason = fmt.Sprintf("empty, but not yet for %s", *f.ConsolidateAfter)
		return waitFor(out, quiet)
	}
	return EmptyDecision{Verdict: Reclaim, Consolidatable: true, Reason: fmt.Sprintf("empty for %s", *f.ConsolidateAfter)}
}

// BlocksEmpty returns why a node stays that DecideEmpty would remove; empty where nothing keeps it. Its drain would wait for a pod of a
// DaemonSet that do-not-disrupt or a PodDisruptionBudget protects, without an end where there is no termination grace period. As in Karpenter,
// do-not-disrupt counts on a static pod as well, and on a pod that tolerates the disruption taint.
func BlocksEmpty(c Candidate, budgets PodBudgets) string {
	c.DisruptBare = true // What is left on the node belongs to it: such a pod ends with the node.
	return BlockOf(c, budgets).Why
}

// decideNever decides about nodes of NodePools with consolidateAfter Never. Such a node is removed only if it was launched
// for the pods of another node and got none of them, because the move was called off.
func decideNever(f EmptyFacts) EmptyDecision {
	stays := EmptyDecision{Verdict: Keep, Reason: "its NodePool consolidates nothing (consolidateAfter Never)"}
	if !f.Replaces || !f.LastPodEvent.IsZero() || Occupant(f.Pods) != nil || f.CordonedBy != "" || f.Protection.Active {
		return stays
	}
	if until := f.InitializedAt.Add(replacementGrace); f.Now.Before(until) {
		stays.Reason = "the node replaces another, whose pods may not be bound yet"
		return waitFor(stays, until)
	}
	return EmptyDecision{Verdict: Reclaim, Reason: "launched for the pods of another node, none of which was bound to it"}
}

// waitFor makes the verdict Wait until the time, or until the decision's At where that is earlier.
func waitFor(d EmptyDecision, until time.Time) EmptyDecision {
	d.Verdict = Wait
	if d.At.IsZero() || until.Before(d.At) {
		d.At = until
	}
	return d
}
