package reclaim

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/drain"
)

// replacementGrace is how long after it joined a node that replaces another is left: the pods it is for may still be
// on their way.
const replacementGrace = 2 * time.Minute

// Verdict on a node.
type Verdict string

// The verdicts.
const (
	// Keep the node until something changes.
	Keep Verdict = "keep"
	// Wait until Decision.At and decide again.
	Wait Verdict = "wait"
	// Reclaim the node now, within budgets and if the scheduler agrees.
	Reclaim Verdict = "reclaim"
)

// Facts about one node.
type Facts struct {
	// Now is the time of the decision.
	Now time.Time
	// Deleting says that the NodeClaim is going already.
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
	Protection drain.Protection
	// Replaces says that the node was launched for another's pods.
	Replaces bool
	// CordonedBy names who else cordoned the node; empty where nobody did.
	CordonedBy string
}

// Decision about one node.
type Decision struct {
	// Verdict says what to do.
	Verdict Verdict
	// At is when to decide again; set for Wait, and for Keep where only the condition Consolidatable changes then.
	At time.Time
	// Consolidatable says that no pod came or went for consolidateAfter.
	Consolidatable bool
	// Reason is a sentence for a human.
	Reason string
}

// Decide says whether a node is to be given back.
func Decide(f Facts) Decision {
	switch {
	case f.Deleting:
		return Decision{Verdict: Keep, Reason: "the node is leaving already"}
	case f.InitializedAt.IsZero():
		return Decision{Verdict: Keep, Reason: "the node is not initialized yet"}
	case f.ConsolidateAfter == nil:
		return decideNever(f)
	}
	quiet := f.InitializedAt
	if f.LastPodEvent.After(quiet) {
		quiet = f.LastPodEvent
	}
	quiet = quiet.Add(*f.ConsolidateAfter)
	out := Decision{Verdict: Keep, Consolidatable: !f.Now.Before(quiet)}
	if !out.Consolidatable {
		out.At = quiet
	}
	if pod := occupant(f.Pods); pod != nil {
		out.Reason = fmt.Sprintf("pod %s/%s is on the node", pod.Namespace, pod.Name)
		return out
	}
	if f.CordonedBy != "" {
		out.Reason = "the node is cordoned: " + f.CordonedBy
		return out
	}
	if p := f.Protection; p.Active {
		out.Reason = "do-not-disrupt"
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
	return Decision{Verdict: Reclaim, Consolidatable: true, Reason: fmt.Sprintf("empty for %s", *f.ConsolidateAfter)}
}

// decideNever is for nodes of NodePools that consolidate nothing: one that was launched for the pods of another and got none of
// them was for a move that was called off, and nobody asked for it.
func decideNever(f Facts) Decision {
	stays := Decision{Verdict: Keep, Reason: "consolidateAfter is Never"}
	if !f.Replaces || !f.LastPodEvent.IsZero() || occupant(f.Pods) != nil || f.CordonedBy != "" || f.Protection.Active {
		return stays
	}
	if until := f.InitializedAt.Add(replacementGrace); f.Now.Before(until) {
		stays.Reason = "the node replaces another, whose pods may be on their way"
		return waitFor(stays, until)
	}
	return Decision{Verdict: Reclaim, Reason: "launched for the pods of another node, none of which came"}
}

func waitFor(d Decision, until time.Time) Decision {
	d.Verdict = Wait
	if d.At.IsZero() || until.Before(d.At) {
		d.At = until
	}
	return d
}

// occupant is a pod that makes its node not empty: neither a DaemonSet's nor static nor at its end. A pod that is
// terminating still runs.
func occupant(pods []*corev1.Pod) *corev1.Pod {
	for _, pod := range pods {
		if Counts(pod) && !drain.Terminal(pod) {
			return pod
		}
	}
	return nil
}

// Counts says whether a pod is one of those whose coming and going matters to reclaim.
func Counts(pod *corev1.Pod) bool { return !drain.OfDaemonSet(pod) && !drain.Static(pod) }
