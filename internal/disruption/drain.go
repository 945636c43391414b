package disruption

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// DrainFacts are the input of one step of a drain.
type DrainFacts struct {
	// Pods are bound to the node.
	Pods []*corev1.Pod
	// Now is the time of the decision.
	Now time.Time
	// Deadline is when the termination grace period ends; zero where there is none.
	Deadline time.Time
}

// DrainPlan is what to do with a node's pods now.
type DrainPlan struct {
	// Evict are the pods to evict through the Eviction API, which may refuse. They are of the first tier that is not empty.
	Evict []*corev1.Pod
	// Delete are the pods to delete, whether or not a budget or an annotation protects them: the deadline comes before their
	// grace period would end.
	Delete []Deletion
	// Waiting is the number of pods that the drain waits for, in all tiers.
	Waiting int
	// Protected are the pods that do-not-disrupt keeps on the node, in all tiers.
	Protected []*corev1.Pod
	// Invalid are the pods with an invalid do-not-disrupt annotation.
	Invalid []*corev1.Pod
	// Done is true where the drain waits for no pod any more.
	Done bool
}

// Deletion is the deletion of one pod.
type Deletion struct {
	// Pod is the pod to delete.
	Pod *corev1.Pod
	// GraceSeconds is the grace period, at least 1: with zero, the API server would remove the pod before its containers
	// end.
	GraceSeconds int64
}

// Tiers of eviction, in order: a tier begins when no pod of the one before is left.
const (
	TierOrdinary = iota
	TierDaemonSet
	TierCritical
	TierCriticalDaemonSet
	tiers
)

// Tier returns the tier in which the pod is evicted.
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

// DecideDrain plans one step of a drain. The order and the exceptions are Karpenter's: a tier is evicted when no pod of the
// one before is left.
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

// deletion reports whether the pod must be deleted now so that its grace period ends by the deadline, and with which grace
// period.
func deletion(pod *corev1.Pod, in DrainFacts) (int64, bool) {
	if in.Deadline.IsZero() {
		return 0, false
	}
	left := max(int64(in.Deadline.Sub(in.Now)/time.Second), 1)
	if pod.DeletionTimestamp != nil {
		// After the deadline, a pod is deleted once more with a grace period of one second.
		soonest := in.Now.Add(time.Second)
		return left, pod.DeletionTimestamp.After(in.Deadline) && pod.DeletionTimestamp.After(soonest)
	}
	return left, !in.Now.Before(in.Deadline.Add(-GracePeriod(pod)))
}

// mostGrace bounds grace periods, which the API server does not: longer ones would not fit into a time.Duration, and sums of two do.
const mostGrace = 100 * 365 * 24 * time.Hour

// GracePeriod returns how long the pod may take to end, at most 100 years.
func GracePeriod(pod *corev1.Pod) time.Duration {
	seconds := int64(corev1.DefaultTerminationGracePeriodSeconds)
	if pod.Spec.TerminationGracePeriodSeconds != nil {
		seconds = *pod.Spec.TerminationGracePeriodSeconds
	}
	return time.Duration(min(max(seconds, 0), int64(mostGrace/time.Second))) * time.Second
}

// DisplacedPods returns the pods that need room on other nodes: those that the drain evicts and whose controllers create
// replacements. Pods that do-not-disrupt protects are included only if their protection ends: at the deadline, or because
// EC2 terminates the instance soon (instanceEnds).
func DisplacedPods(in DrainFacts, instanceEnds bool) []*corev1.Pod {
	var out []*corev1.Pod
	for _, pod := range in.Pods {
		if !NeedsRoom(pod) || !Holds(pod, in.Now) {
			continue
		}
		if instanceEnds || !in.Deadline.IsZero() || !ProtectionOf(pod, in.Now).Active {
			out = append(out, pod)
		}
	}
	return out
}
