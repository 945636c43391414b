package disruption

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// replacementGrace is how long a node that replaces another is kept after it joined: its pods may still be on their way.
const replacementGrace = 2 * time.Minute

// EmptyVerdict says what to do about a node that may be empty.
type EmptyVerdict string

// The verdicts of DecideEmpty.
const (
	// Keep the node until something changes.
	Keep EmptyVerdict = "keep"
	// Wait until EmptyDecision.At and decide again.
	Wait EmptyVerdict = "wait"
	// Reclaim the node now, within budgets and if the scheduler agrees.
	Reclaim EmptyVerdict = "reclaim"
)

// EmptyFacts are what a decision rests on whether a node is given back because it is empty.
type EmptyFacts struct {
	// Now is the time of the decision.
	Now time.Time
	// Deleting is true where the NodeClaim or its Node is being deleted.
	Deleting bool
	// InitializedAt is when the node became an ordinary one; zero before.
	InitializedAt time.Time
	// ConsolidateAfter of the NodePool; nil means Never, or that there is no pool to ask.
	ConsolidateAfter *time.Duration
	// LastPodEvent is when a pod last came or went; zero where none was seen.
	LastPodEvent time.Time
	// Pods bound to the node.
	Pods []*corev1.Pod
	// Protection by karpenter.sh/do-not-disrupt on Node or NodeClaim.
	Protection Protection
	// Replaces is true where the node was launched for the pods of another.
	Replaces bool
	// CordonedBy names what else cordoned the node; empty where nothing did.
	CordonedBy string
}

// EmptyFactsOf returns the facts that the objects show. LastPodEvent is the one of the NodeClaim's status, and CordonedBy is left
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
	// At is when to decide again; set for Wait, and for Keep where only the condition Consolidatable changes then.
	At time.Time
	// Consolidatable is true where no pod came or went for consolidateAfter.
	Consolidatable bool
	// Reason is a sentence for a human.
	Reason string
}

// DecideEmpty decides whether a node is given back because it is empty.
func DecideEmpty(f EmptyFacts) EmptyDecision {
	switch {
	case f.Deleting:
		return EmptyDecision{Verdict: Keep, Reason: "the node is leaving already"}
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
	// Once a pod has been there the node has served its purpose, and is one like any other.
	if until := f.InitializedAt.Add(replacementGrace); f.Replaces && f.LastPodEvent.IsZero() && f.Now.Before(until) {
		out.Reason = "the node replaces another, whose pods may be on their way"
		return waitFor(out, until)
	}
	if !out.Consolidatable {
		out.Reason = fmt.Sprintf("empty, but not yet for %s", *f.ConsolidateAfter)
		return waitFor(out, quiet)
	}
	return EmptyDecision{Verdict: Reclaim, Consolidatable: true, Reason: fmt.Sprintf("empty for %s", *f.ConsolidateAfter)}
}

// decideNever decides about nodes of NodePools that consolidate nothing. One that was launched for the pods of another node and
// got none of them belongs to a move that was called off: it is given back all the same.
func decideNever(f EmptyFacts) EmptyDecision {
	stays := EmptyDecision{Verdict: Keep, Reason: "its NodePool consolidates nothing (consolidateAfter Never)"}
	if !f.Replaces || !f.LastPodEvent.IsZero() || Occupant(f.Pods) != nil || f.CordonedBy != "" || f.Protection.Active {
		return stays
	}
	if until := f.InitializedAt.Add(replacementGrace); f.Now.Before(until) {
		stays.Reason = "the node replaces another, whose pods may be on their way"
		return waitFor(stays, until)
	}
	return EmptyDecision{Verdict: Reclaim, Reason: "launched for the pods of another node, none of which came"}
}

func waitFor(d EmptyDecision, until time.Time) EmptyDecision {
	d.Verdict = Wait
	if d.At.IsZero() || until.Before(d.At) {
		d.At = until
	}
	return d
}
