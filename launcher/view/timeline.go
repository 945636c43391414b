package view

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Moment is a step in the life of a pod or a node. The API server keeps times in whole seconds.
type Moment struct {
	// At is when it was.
	At time.Time `json:"at"`
	// What happened, in words for people.
	What string `json:"what"`
	// Detail names what it happened to, or why; empty for none.
	Detail string `json:"detail,omitempty"`
}

// timeline are moments in the order in which they usually come.
type timeline []Moment

// add appends a moment; one without a time has not come yet.
func (t *timeline) add(at time.Time, what, detail string) {
	if !at.IsZero() {
		*t = append(*t, Moment{at, what, detail})
	}
}

// sorted returns the moments by time; those of one second keep their order.
func (t timeline) sorted() []Moment {
	out := append([]Moment{}, t...) // As JSON, none is an empty list.
	slices.SortStableFunc(out, func(a, b Moment) int { return a.At.Compare(b.At) })
	return out
}

// NodeTimeline returns what has happened to a NodeClaim and its node, by time. node is nil where there is none.
func NodeTimeline(claim *karpv1.NodeClaim, node *corev1.Node) []Moment {
	var out timeline
	expected := ParseExpected(claim.Annotations[catalog.ExpectedAnnotation])
	planned := ""
	if expected.InstanceType != "" {
		planned = fmt.Sprintf("%s, %s in %s, %s USD per hour", expected.InstanceType, expected.CapacityType, expected.Zone, catalog.USD(expected.Price))
	}
	out.add(claim.CreationTimestamp.Time, "planned", planned)
	reached := func(condition, what, detail string) {
		if c := conditions.Claim(claim, condition); c.IsTrue() {
			out.add(c.LastTransitionTime.Time, what, detail)
		}
	}
	reached(karpv1.ConditionTypeLaunched, "launched", claim.Status.ProviderID)
	reached(karpv1.ConditionTypeRegistered, "joined", claim.Status.NodeName)
	if node != nil {
		if c := conditions.Posted(node); c != nil && c.Status == corev1.ConditionTrue {
			out.add(c.LastTransitionTime.Time, "ready", "")
		}
	}
	reached(karpv1.ConditionTypeInitialized, "initialized", "")
	if claim.DeletionTimestamp != nil {
		out.add(claim.DeletionTimestamp.Time, "terminating", whyTerminating(claim))
		reached(karpv1.ConditionTypeDrained, "drained", "")
	}
	return out.sorted()
}

// PodTimeline returns what has happened to a pod since it was created, by time, with what happened to its NodeClaim and node since. claim and
// node are nil where the pod has none. stages are those of its images and containers.
func PodTimeline(pod *corev1.Pod, claim *karpv1.NodeClaim, node *corev1.Node, stages []Moment) []Moment {
	created := pod.CreationTimestamp.Time
	var out timeline
	out.add(created, "created", "")
	if claim != nil {
		for _, m := range NodeTimeline(claim, node) {
			if !m.At.Before(created) {
				out.add(m.At, "node "+m.What, m.Detail)
			}
		}
	}
	reached := func(condition corev1.PodConditionType, what, detail string) {
		if c := conditions.Pod(pod, condition); c != nil && c.Status == corev1.ConditionTrue {
			out.add(c.LastTransitionTime.Time, what, detail)
		}
	}
	reached(corev1.PodScheduled, "bound", pod.Spec.NodeName)
	reached(corev1.PodReadyToStartContainers, "network ready", "")
	reached(corev1.PodInitialized, "init containers done", "")
	all, pending := started(pod), unschedulable(pod)
	for _, m := range stages {
		// One container that has started is all of them, and the condition of a pod that waits has since when it does.
		one := m.What == containerStarted && !all.IsZero() && len(pod.Status.ContainerStatuses) == 1
		if !one && (m.What != fitsNowhere || pending == nil) {
			out = append(out, m)
		}
	}
	out.add(all, "containers started", "")
	reached(corev1.PodReady, "ready", "")
	if pending != nil {
		out.add(pending.LastTransitionTime.Time, fitsNowhere, "")
	}
	if pod.DeletionTimestamp != nil {
		out.add(pod.DeletionTimestamp.Time, "to end by", "")
	}
	return out.sorted()
}

// unschedulable returns the condition of a pod that fits no node now; nil for another one.
func unschedulable(pod *corev1.Pod) *corev1.PodCondition {
	if c := conditions.Pod(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
		return c
	}
	return nil
}

// started returns when the last container of the pod started; zero while one has not.
func started(pod *corev1.Pod) time.Time {
	var last time.Time
	for _, s := range pod.Status.ContainerStatuses {
		var at time.Time
		switch {
		case s.State.Running != nil:
			at = s.State.Running.StartedAt.Time
		case s.State.Terminated != nil:
			at = s.State.Terminated.StartedAt.Time
		}
		if at.IsZero() {
			return time.Time{}
		}
		if at.After(last) {
			last = at
		}
	}
	return last
}
