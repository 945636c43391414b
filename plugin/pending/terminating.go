package pending

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/plugin/intake"
)

// endsWithin is how near the end of a pod has to be for its replacement to wait for its room: no node boots faster. A controller
// creates the replacement as soon as the old pod is to be deleted. Even a deletion without a grace period is two writes, between
// which the replacement may come and be tried.
const endsWithin = 10 * time.Second

// Terminating finds pods that end in a moment. Each makes room for one pod of its controller.
type Terminating struct {
	now time.Time
	// pods lists those of a controller (intake.ControllerKey), node returns a Node, nil for none.
	pods func(controller string) []*corev1.Pod
	node func(name string) *corev1.Node
	// left are the terminating pods of a controller whose room no pod has got.
	left map[string][]*corev1.Pod
}

// NewTerminating returns the pods that end soon after the time. pods lists the pods of a controller (intake.ControllerKey), node
// returns a Node, nil for none.
func NewTerminating(now time.Time, pods func(controller string) []*corev1.Pod, node func(name string) *corev1.Node) *Terminating {
	return &Terminating{now: now, pods: pods, node: node, left: map[string][]*corev1.Pod{}}
}

// RoomFor returns the terminating pod whose room the pod gets, which was collected at the time given, and gives that room to no
// other. Nil where the pod needs a node.
func (t *Terminating) RoomFor(logger klog.Logger, pod *corev1.Pod, at time.Time) *corev1.Pod {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || t.now.Sub(at) >= endsWithin {
		return nil
	}
	controller := intake.ControllerKey(pod.Namespace, owner)
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

// ends reports whether the pod is about to give up its room on a node. One that should have ended long ago may be stuck.
func (t *Terminating) ends(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp == nil || pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return false
	}
	due := pod.DeletionTimestamp.Sub(t.now)
	return due < endsWithin && due > -endsWithin
}

// keepsOff reports whether a taint keeps pods off a node.
func keepsOff(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }
