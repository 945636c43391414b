package pending

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/plugin/intake"
)

// endsWithin is how soon a pod must end for its replacement to wait for its place: no node boots faster. A controller creates the
// replacement as soon as the old pod is to be deleted. Even a deletion without a grace period is two writes, and the replacement
// may be tried between them.
const endsWithin = 10 * time.Second

// Terminating finds terminating pods that end within endsWithin. The place of each is for one pod of the same controller.
type Terminating struct {
	now time.Time
	// pods lists the pods of a controller. node returns a Node, nil for none.
	pods func(intake.Controller) []*corev1.Pod
	node func(name string) *corev1.Node
	// left are the terminating pods of a controller whose places are not taken.
	left map[intake.Controller][]*corev1.Pod
}

// NewTerminating returns the pods that end soon after the time. pods lists the pods of a controller. node returns a Node, nil
// for none.
func NewTerminating(now time.Time, pods func(intake.Controller) []*corev1.Pod, node func(name string) *corev1.Node) *Terminating {
	return &Terminating{now: now, pods: pods, node: node, left: map[intake.Controller][]*corev1.Pod{}}
}

// RoomFor returns the terminating pod whose place the pod gets, and gives that place to no other pod. It returns nil if the pod
// needs a node. at is when the pod was collected.
func (t *Terminating) RoomFor(logger klog.Logger, pod *corev1.Pod, at time.Time) *corev1.Pod {
	controller := intake.ControllerOf(pod)
	if controller.None() || t.now.Sub(at) >= endsWithin {
		return nil
	}
	list, known := t.left[controller]
	if !known {
		for _, other := range t.pods(controller) {
			if t.ends(other) {
				list = append(list, other)
			}
		}
	}
	for i, other := range list {
		node := t.node(other.Spec.NodeName)
		if node == nil {
			continue
		}
		if _, kept := corev1helpers.FindMatchingUntoleratedTaint(logger, node.Spec.Taints, pod.Spec.Tolerations, keepsOff, true); kept || node.Spec.Unschedulable {
			continue
		}
		t.left[controller] = append(list[:i:i], list[i+1:]...)
		return other
	}
	t.left[controller] = list
	return nil
}

// ends reports whether the pod is about to free its place on a node. A pod that should have ended long ago may be stuck.
func (t *Terminating) ends(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp == nil || pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return false
	}
	due := pod.DeletionTimestamp.Sub(t.now)
	return due < endsWithin && due > -endsWithin
}

// keepsOff reports whether a taint keeps pods off a node.
func keepsOff(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }
