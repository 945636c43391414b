package disruption

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// DrainFacts are what one step of a drain rests on.
type DrainFacts struct {
	// Pods bound to the node.
	Pods []*corev1.Pod
	// Now is the time of the decision.
	Now time.Time
	// Deadline is when the termination grace period ends; zero where there is none.
	Deadline time.Time
}

// DrainPlan says what to do about a node's pods now.
type DrainPlan struct {
	// Evict through the Eviction API, which may refuse: pods of the first tier that is not empty.
	Evict []*corev1.Pod
	// Delete although a budget or an annotation may protect them: the deadline comes before their grace period ends.
	Delete []Deletion
	// Waiting is the number of pods that hold the node, whichever tier they are in.
	Waiting int
	// Protected pods hold the node by do-not-disrupt, those of later tiers included.
	Protected []*corev1.Pod
	// Invalid pods carry a do-not-disrupt annotation that means nothing.
	Invalid []*corev1.Pod
	// Done says that nothing holds the node any more.
	Done bool
}

// Deletion is the deletion of one pod.
type Deletion struct {
	// Pod to delete.
	Pod *corev1.Pod
	// GraceSeconds it is left, at least 1: zero would free its name before it has ended.
	GraceSeconds int64
}

// Tiers of eviction, in their order: a tier begins when the one before it has left.
const (
	TierOrdinary = iota
	TierDaemonSet
	TierCritical
	TierCriticalDaemonSet
	tiers
)

// Tier returns the tier that the pod is evicted in.
func Tier(pod *corev1.Pod) int {
	tier := TierOrdinary
	if OfDaemonSet(pod) {
		tier = TierDaemonSet
	}
	if pod.Spec.PriorityClassName == "system-cluster-critical" || pod.Spec.PriorityClassName == "system-node-critical" {
		tier += TierCritical
	}
	return tier
}

// DecideDrain plans one step of a drain. The order and the exceptions are Karpenter's: each tier is evicted when the one before
// it has left.
func DecideDrain(in DrainFacts) DrainPlan {
	var out DrainPlan
	var byTier [tiers][]*corev1.Pod
	for _, pod := range in.Pods {
		if !Holds(pod, in.Now) {
			continue
		}
		out.Waiting++
		byTier[Tier(pod)] = append(byTier[Tier(pod)], pod)
		if p := ProtectionOf(pod, in.Now); p.Invalid != "" {
			out.Invalid = append(out.Invalid, pod)
		} else if p.Active && pod.DeletionTimestamp == nil {
			out.Protected = append(out.Protected, pod)
		}
		if grace, due := deletion(pod, in); due {
			out.Delete = append(out.Delete, Deletion{Pod: pod, GraceSeconds: grace})
		}
	}
	out.Done = out.Waiting == 0 || !in.Deadline.IsZero() && !in.Now.Before(in.Deadline)
	for _, pods := range byTier {
		if len(pods) == 0 {
			continue
		}
		for _, pod := range pods {
			deleted := slices.ContainsFunc(out.Delete, func(d Deletion) bool { return d.Pod == pod })
			if pod.DeletionTimestamp == nil && !deleted && !slices.Contains(out.Protected, pod) {
				out.Evict = append(out.Evict, pod)
			}
		}
		break
	}
	return out
}

// deletion reports whether the pod must be deleted now for its grace period to end by the deadline, and the grace it gets.
func deletion(pod *corev1.Pod, in DrainFacts) (int64, bool) {
	if in.Deadline.IsZero() {
		return 0, false
	}
	left := max(int64(in.Deadline.Sub(in.Now)/time.Second), 1)
	if pod.DeletionTimestamp != nil {
		// Past the deadline too, a pod is told once that it has a second.
		soonest := in.Now.Add(time.Second)
		return left, pod.DeletionTimestamp.After(in.Deadline) && pod.DeletionTimestamp.After(soonest)
	}
	grace := int64(corev1.DefaultTerminationGracePeriodSeconds)
	if pod.Spec.TerminationGracePeriodSeconds != nil {
		grace = *pod.Spec.TerminationGracePeriodSeconds
	}
	return left, !in.Now.Before(in.Deadline.Add(-time.Duration(grace) * time.Second))
}

// DisplacedPods returns the pods that need room on other nodes: those that the drain evicts and whose controllers create
// replacements. Pods that do-not-disrupt protects are among them only if something ends their protection: the deadline, or that
// the node is doomed, because EC2 terminates its instance soon.
func DisplacedPods(in DrainFacts, doomed bool) []*corev1.Pod {
	var out []*corev1.Pod
	for _, pod := range in.Pods {
		if !NeedsRoom(pod) || !Holds(pod, in.Now) {
			continue
		}
		if doomed || !in.Deadline.IsZero() || !ProtectionOf(pod, in.Now).Active {
			out = append(out, pod)
		}
	}
	return out
}
