package plugin

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/podstatus"
)

// endsWithin is how near the end of a pod has to be for the pod that its controller made instead to wait for its room: no node boots
// faster. A controller makes it as soon as the old one is to be deleted, and even a deletion without a grace period is two writes,
// between which the new one may come and be tried.
const endsWithin = 10 * time.Second

// endings are the pods that end in a moment, by their controllers. Each makes room for one pod.
type endings struct {
	now time.Time
	// pods lists those of a controller (intake.ControllerKey), node returns a Node, nil for none.
	pods func(controller string) []*corev1.Pod
	node func(name string) *corev1.Node
	left map[string][]*corev1.Pod
}

// endings as the informers show them now; nil for the pods of nodes that go, which run as long as they have no other room.
func (p *planner) endings(now time.Time, of purpose) *endings {
	if !of.pending() {
		return nil
	}
	return &endings{
		now: now, left: map[string][]*corev1.Pod{},
		pods: p.owners.PodsOf,
		node: func(name string) *corev1.Node {
			node, err := p.informer.Core().V1().Nodes().Lister().Get(name)
			if err != nil {
				return nil
			}
			return node
		},
	}
}

// roomOf returns the pod whose room the pod gets that was collected at a time, and gives it to no other; nil where it has to have a
// node.
func (e *endings) roomOf(logger klog.Logger, pod *corev1.Pod, at time.Time) *corev1.Pod {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || e.now.Sub(at) >= endsWithin {
		return nil
	}
	controller := intake.ControllerKey(pod.Namespace, owner)
	list, known := e.left[controller]
	if !known {
		for _, other := range e.pods(controller) {
			if e.ends(other) {
				list = append(list, other)
			}
		}
	}
	for i, other := range list {
		node := e.node(other.Spec.NodeName)
		if node == nil {
			continue
		}
		if _, kept := corev1helpers.FindMatchingUntoleratedTaint(logger, node.Spec.Taints, pod.Spec.Tolerations, keepsOff, true); kept || node.Spec.Unschedulable {
			continue
		}
		e.left[controller] = append(list[:i:i], list[i+1:]...)
		return other
	}
	e.left[controller] = list
	return nil
}

// ends says whether the pod holds room on a node that it gives up in a moment. One that should have long ended may be stuck.
func (e *endings) ends(pod *corev1.Pod) bool {
	if pod.DeletionTimestamp == nil || pod.Spec.NodeName == "" || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return false
	}
	due := pod.DeletionTimestamp.Sub(e.now)
	return due < endsWithin && due > -endsWithin
}

// keepsOff says whether a taint keeps pods off a node.
func keepsOff(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }

// awaitsRoom has a pod wait that gets the room of one that ends, and says so to it. Once that one has ended the scheduler has a moment
// to try the pod there.
func (p *planner) awaitsRoom(ctx context.Context, from *endings, e intake.Entry, pod *corev1.Pod) bool {
	if from == nil || e.Gang.Name != "" {
		return false
	}
	ending := from.roomOf(klog.FromContext(ctx), pod, e.At)
	switch {
	case ending != nil:
		e.EndingSeen = from.now
		p.status.Report(podstatus.Note{Pod: catalog.PodRefOf(pod), Message: fmt.Sprintf("no node is launched while pod %s ends, whose room it gets on node %s",
			klog.KObj(ending), ending.Spec.NodeName)})
	case e.EndingSeen.IsZero() || from.now.Sub(e.EndingSeen) >= 2*housekeeping:
		return false
	}
	p.unplaced[pod.UID] = e
	p.replan.by(from.now.Add(housekeeping))
	return true
}
