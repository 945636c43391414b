package disruption

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// DoNotEvictAnnotation is the name of karpenter.sh/do-not-disrupt before v1. Policies still write it.
const DoNotEvictAnnotation = "karpenter.sh/do-not-evict"

// Protection is what the annotations of an object allow.
type Protection struct {
	// Active is true where the object may not be disrupted now.
	Active bool
	// Until is when the protection ends; zero where it has no end.
	Until time.Time
	// Invalid explains why an annotation was ignored; empty where none was.
	Invalid string
}

// ProtectionOf reads karpenter.sh/do-not-disrupt of a pod, "true" or how long the pod must have run, and the older
// karpenter.sh/do-not-evict, "true".
func ProtectionOf(pod *corev1.Pod, now time.Time) Protection {
	return protection(pod.Annotations, started(pod), now)
}

// ShieldAnnotation on a Node means that its karpenter.sh/do-not-disrupt is slipway's, which keeps a Karpenter that runs beside slipway from the
// Node, and no user's.
const ShieldAnnotation = "slipway.dev/handed-over"

// ProtectionOfNode reads the same annotations of a Node or NodeClaim; a duration counts from its creation.
func ProtectionOfNode(annotations map[string]string, created, now time.Time) Protection {
	if annotations[ShieldAnnotation] != "" {
		return Protection{}
	}
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
