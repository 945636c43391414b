package sim

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// reportContainers gives the writer the Events of images and containers between the last call and now, in the words of Kubernetes 1.36. It returns now.
func (k *kubelet) reportContainers(s *podState, now time.Time) time.Time {
	if s.view.rejected != nil || k.light && s.view.pod.Annotations[ReportAnnotation] != "true" {
		return now
	}
	for _, e := range containerEvents(s.view, k.name()) {
		if at := e.FirstTimestamp.Time; at.After(s.reported) && !at.After(now) {
			k.writer.event(e)
		}
	}
	return now
}

// containerEvents returns the Events of a pod's images and containers, those to come included, by time.
func containerEvents(v podView, host string) []*corev1.Event {
	var out []*corev1.Event
	add := func(at time.Time, c containerPlan, reason, message string) {
		if !v.signaled.IsZero() && v.signaled.Before(at) {
			return // A pod that is being stopped starts nothing more.
		}
		about := podReference(v.pod)
		field := "containers"
		if v.isInit(c) {
			field = "initContainers"
		}
		about.FieldPath = fmt.Sprintf("spec.%s{%s}", field, c.name)
		e := newEvent(about, host, corev1.EventTypeNormal, reason, message)
		// The times of a plan are those at which a kubelet would have written it.
		e.Name = fmt.Sprintf("%s.%x.%d", v.pod.Name, at.UnixNano(), len(out))
		e.FirstTimestamp, e.LastTimestamp = metav1.NewTime(at), metav1.NewTime(at)
		out = append(out, e)
	}
	for _, c := range slices.Concat(v.plan.inits, v.plan.containers) {
		if c.pulled.After(c.pull) {
			took := c.pulled.Sub(c.pull).Round(time.Millisecond)
			add(c.pull, c, "Pulling", fmt.Sprintf("Pulling image %q", c.image))
			add(c.pulled, c, "Pulled", fmt.Sprintf("Successfully pulled image %q in %v (%v including waiting). Image size: %d bytes.", c.image, took, took, 100*mib))
		} else {
			add(c.pulled, c, "Pulled", fmt.Sprintf("Container image %q already present on machine and can be accessed by the pod", c.image))
		}
		add(c.start, c, "Created", "Container created")
		add(c.start, c, "Started", "Container started")
	}
	slices.SortStableFunc(out, func(a, b *corev1.Event) int { return a.FirstTimestamp.Compare(b.FirstTimestamp.Time) })
	return out
}
