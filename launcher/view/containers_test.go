package view_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/launcher/view"
)

// reported returns the Events of a pod that pulls one image, has another, and whose container starts again and again.
func reported() []corev1.Event {
	event := func(seconds int, reason, message, field string) corev1.Event {
		e := corev1.Event{Reason: reason, Message: message, FirstTimestamp: after(seconds), Source: corev1.EventSource{Component: "kubelet"}}
		e.InvolvedObject.FieldPath = field
		return e
	}
	out := []corev1.Event{
		event(45, "Started", "Container started", "spec.containers{web}"), // A list of Events is in no order.
		event(41, "Pulling", `Pulling image "registry.example/web:1"`, "spec.containers{web}"),
		event(44, "Pulled", `Successfully pulled image "registry.example/web:1" in 2.1s (2.4s including waiting). Image size: 720 bytes.`, "spec.containers{web}"),
		event(44, "Created", "Created container: side", ""),
		event(41, "Pulled", `Container image "side:1" already present on machine and can be accessed by the pod`, "spec.containers{side}"),
		event(2, "Scheduled", "assigned to n1", ""),
		{Reason: "FailedScheduling", Message: "0/3 nodes are available, again", EventTime: metav1.NewMicroTime(after(2).Time), ReportingController: "default-scheduler"},
		{Reason: "FailedScheduling", Message: "0/3 nodes are available", EventTime: metav1.NewMicroTime(after(1).Time), ReportingController: "default-scheduler"},
		{Reason: "Nominated", Message: "launching m7g.large", EventTime: metav1.NewMicroTime(after(2).Time), ReportingController: "karpenter"},
		{Reason: "Pulling", Message: "by no kubelet", FirstTimestamp: after(43), Source: corev1.EventSource{Component: "someone"}},
	}
	out[0].Count, out[0].LastTimestamp = 3, after(90)
	return out
}

// What the kubelet's Events report of images and containers is in the timeline by time; what others write is not.
func TestPodTimelineHasImagesAndContainers(t *testing.T) {
	pod := ran()
	var got []string
	for _, m := range view.PodTimeline(pod, nil, nil, view.Stages(reported())) {
		got = append(got, strings.TrimSuffix(fmt.Sprintf("%s %s: %s", m.At.Sub(created()), m.What, m.Detail), ": "))
	}
	want := []string{
		"0s created", "1s fits no node: 0/3 nodes are available", "2s promised a node: launching m7g.large", "3s bound: n1", "40s network ready",
		"41s pulling image: registry.example/web:1", "41s image there: side:1 already present on machine",
		"44s image there: registry.example/web:1 in 2.1s (2.4s including waiting). Image size: 720 bytes.", "44s container created: side",
		"45s container started: web, the last of 3 at 2026-01-01T00:01:30Z", "45s containers started", "46s ready",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	pod.Status.ContainerStatuses = pod.Status.ContainerStatuses[:1]
	if got := steps(view.PodTimeline(pod, nil, nil, view.Stages(reported()))); strings.Contains(got, "container started") || !strings.Contains(got, "containers started") {
		t.Errorf("a pod of one container: %s", got)
	}
}

// A pod's owner may write any number of Events of any length: the timeline stays short.
func TestPodTimelineIsBounded(t *testing.T) {
	var events []corev1.Event
	for range 10_000 {
		events = append(events, corev1.Event{Reason: "Failed", Message: strings.Repeat("é", 5000), FirstTimestamp: after(5), ReportingController: "kubelet"})
	}
	moments := view.PodTimeline(ran(), nil, nil, view.Stages(events))
	if len(moments) > 100 {
		t.Errorf("got %d moments", len(moments))
	}
	for _, m := range moments {
		if len([]rune(m.Detail)) > 250 {
			t.Errorf("a detail has %d characters", len([]rune(m.Detail)))
		}
	}
}
