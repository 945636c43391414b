package disruption

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// stuckAfter is how long after the end of its grace period a pod no longer holds up the drain of its node.
const stuckAfter = time.Minute

// Terminal reports whether the pod has succeeded or failed.
func Terminal(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// OfDaemonSet reports whether a DaemonSet controls the pod.
func OfDaemonSet(pod *corev1.Pod) bool { return ownedBy(pod, "apps/v1", "DaemonSet") }

// NodeByName returns the node's name that each of the pod's required node selector terms asks for, as those of a DaemonSet's pods do
// (pkg/controller/daemon/util/daemonset_util.go); false for none.
func NodeByName(pod *corev1.Pod) (string, bool) {
	if pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil ||
		pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return "", false
	}
	terms := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	name := ""
	for _, t := range terms {
		i := slices.IndexFunc(t.MatchFields, func(r corev1.NodeSelectorRequirement) bool {
			return r.Key == metav1.ObjectNameField && r.Operator == corev1.NodeSelectorOpIn && len(r.Values) > 0
		})
		if i < 0 {
			return "", false
		}
		name = t.MatchFields[i].Values[0]
	}
	return name, name != ""
}

// Static reports whether the pod is the mirror of a static pod, which the API server cannot end.
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

// Tolerates reports whether the pod tolerates karpenter.sh/disrupted:NoSchedule. Its controller would create it on the node
// again at once, so a drain leaves it until the instance terminates.
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

// Holds reports whether a drain waits for the pod: it is not terminal, not static, does not tolerate the disruption taint, and
// is not stuck in termination.
func Holds(pod *corev1.Pod, now time.Time) bool {
	return !Terminal(pod) && Drainable(pod, now)
}

// Drainable reports the same as Holds, for a pod in any phase.
func Drainable(pod *corev1.Pod, now time.Time) bool {
	stuck := pod.DeletionTimestamp != nil && now.Sub(pod.DeletionTimestamp.Time) > stuckAfter
	return !Tolerates(pod) && !Static(pod) && !stuck
}

// Occupies reports whether the pod makes its node non-empty: it belongs to no DaemonSet and is neither static nor terminal.
// A terminating pod still runs.
func Occupies(pod *corev1.Pod) bool {
	return !OfDaemonSet(pod) && !Static(pod) && !Terminal(pod)
}

// Occupant returns the first pod that makes the node non-empty; nil where the node is empty.
func Occupant(pods []*corev1.Pod) *corev1.Pod {
	for _, pod := range pods {
		if Occupies(pod) {
			return pod
		}
	}
	return nil
}

// NeedsRoom reports whether the pod needs room on another node when its node terminates: it occupies the node, is not
// terminating, and has a controller that creates a replacement.
func NeedsRoom(pod *corev1.Pod) bool {
	return Occupies(pod) && pod.DeletionTimestamp == nil && metav1.GetControllerOfNoCopy(pod) != nil
}

// BoundAt returns when a pod was bound to its node, as far as its status shows; otherwise when it was created.
func BoundAt(pod *corev1.Pod) time.Time {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return pod.CreationTimestamp.Time
}

// Arrived names a pod that occupies the node and was bound to it within consolidateAfter; empty for none. The condition Consolidatable is False
// then as well, once its writer has seen the pod.
func Arrived(pods []*corev1.Pod, consolidateAfter time.Duration, now time.Time) string {
	for _, pod := range pods {
		if consolidateAfter > 0 && Occupies(pod) && pod.DeletionTimestamp == nil && now.Sub(BoundAt(pod)) < consolidateAfter {
			return fmt.Sprintf("Pod %s/%s came less than %s ago (consolidateAfter)", pod.Namespace, pod.Name, consolidateAfter)
		}
	}
	return ""
}

// Terminating names a pod that occupies the node and is terminating; empty for none. Its replacement has a place already, or
// waits for one.
func Terminating(pods []*corev1.Pod) string {
	for _, pod := range pods {
		if Occupies(pod) && pod.DeletionTimestamp != nil {
			return fmt.Sprintf("pod %s/%s is terminating", pod.Namespace, pod.Name)
		}
	}
	return ""
}
