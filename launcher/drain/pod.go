package drain

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// DoNotEvictAnnotation is what karpenter.sh/do-not-disrupt was called before v1; policies still write it.
const DoNotEvictAnnotation = "karpenter.sh/do-not-evict"

// stuckAfter is how long after its grace period a pod that is still there no longer holds its node.
const stuckAfter = time.Minute

// Terminal says that the pod has run to its end.
func Terminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// OfDaemonSet says that a DaemonSet controls the pod.
func OfDaemonSet(pod *corev1.Pod) bool { return ownedBy(pod, "apps/v1", "DaemonSet") }

// Static says that the pod is the mirror of one of the kubelet's own: the API server cannot end it.
func Static(pod *corev1.Pod) bool {
	return ownedBy(pod, "v1", "Node") || pod.Annotations[corev1.MirrorPodAnnotationKey] != ""
}

func ownedBy(pod *corev1.Pod, apiVersion, kind string) bool {
	for _, o := range pod.OwnerReferences {
		if o.APIVersion == apiVersion && o.Kind == kind {
			return true
		}
	}
	return false
}

// Tolerates says that the pod tolerates karpenter.sh/disrupted:NoSchedule: it would come back to the node at once, so
// it is left there until the end.
func Tolerates(pod *corev1.Pod) bool {
	for _, t := range pod.Spec.Tolerations {
		effect := t.Effect == "" || t.Effect == corev1.TaintEffectNoSchedule
		key := t.Key == karpv1.DisruptedTaintKey || t.Key == "" && t.Operator == corev1.TolerationOpExists
		value := t.Operator == corev1.TolerationOpExists || (t.Operator == "" || t.Operator == corev1.TolerationOpEqual) && t.Value == ""
		if effect && key && value {
			return true
		}
	}
	return false
}

// Holds says that the node waits for this pod to leave: it is neither at its end, nor static, nor tolerant of the
// disruption taint, nor stuck in termination.
func Holds(pod *corev1.Pod, now time.Time) bool {
	return !Terminal(pod) && Drainable(pod, now)
}

// Drainable is Holds for a pod in any phase.
func Drainable(pod *corev1.Pod, now time.Time) bool {
	stuck := pod.DeletionTimestamp != nil && now.Sub(pod.DeletionTimestamp.Time) > stuckAfter
	return !Tolerates(pod) && !Static(pod) && !stuck
}

// Protection is what an object says about its own disruption.
type Protection struct {
	// Active says that the object may not be disrupted now.
	Active bool
	// Until is when that ends; zero for one without an end.
	Until time.Time
	// Invalid says what is wrong with an annotation that was ignored; empty where there is nothing wrong.
	Invalid string
}

// ProtectionOf reads karpenter.sh/do-not-disrupt ("true", or how long the pod must have run) and the older
// karpenter.sh/do-not-evict ("true") of a pod.
func ProtectionOf(pod *corev1.Pod, now time.Time) Protection {
	return protection(pod.Annotations, started(pod), now)
}

// ProtectionOfNode reads the same annotations of a Node or NodeClaim; a duration counts from its creation.
func ProtectionOfNode(annotations map[string]string, created, now time.Time) Protection {
	return protection(annotations, created, now)
}

func protection(annotations map[string]string, since, now time.Time) Protection {
	if annotations[DoNotEvictAnnotation] == "true" {
		return Protection{Active: true}
	}
	value, ok := annotations[karpv1.DoNotDisruptAnnotationKey]
	switch {
	case !ok, value == "false":
		return Protection{}
	case value == "true":
		return Protection{Active: true}
	}
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		return Protection{Invalid: fmt.Sprintf("annotation %s: %q is neither \"true\" nor a positive duration such as \"30m\"", karpv1.DoNotDisruptAnnotationKey, value)}
	}
	if since.IsZero() {
		return Protection{Active: true}
	}
	until := since.Add(d)
	return Protection{Active: now.Before(until), Until: until}
}

func started(pod *corev1.Pod) time.Time {
	if pod.Status.StartTime == nil {
		return time.Time{}
	}
	return pod.Status.StartTime.Time
}
