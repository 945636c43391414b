package view

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// mostStages bounds the moments that Events add to a pod's timeline: a pod's owner may write any number of them.
const mostStages = 60

// stages are what the kubelet's Events about a pod's images and containers mean, by their reasons (k8s.io/kubernetes/pkg/kubelet/events).
func stages() map[string]string {
	return map[string]string{
		"Pulling": "pulling image", "Pulled": "image there", "Created": "container created", "Started": containerStarted, "Killing": "container stopped",
		"Failed": "container or image failed", "BackOff": "waiting after a failure", "FailedMount": "volume not mounted", "FailedCreatePodSandBox": "network failed",
	}
}

// containerStarted is the moment at which one container has started.
const containerStarted = "container started"

// Stages returns what the kubelet's Events report of a pod's images and containers, at most 60 moments in no order.
func Stages(events []corev1.Event) []Moment {
	known := stages()
	var out timeline
	for i := range events {
		e := &events[i]
		what, ok := known[e.Reason]
		if ok && len(out) < mostStages && cmp.Or(e.ReportingController, e.Source.Component) == "kubelet" {
			out.add(firstTime(e), what, stageDetail(e))
		}
	}
	return out
}

// firstTime returns when what the Event reports happened first.
func firstTime(e *corev1.Event) time.Time {
	if !e.FirstTimestamp.IsZero() {
		return e.FirstTimestamp.Time
	}
	return e.EventTime.Time
}

// stageDetail returns what an Event is about: the image or the container that its message names, or a part of the message.
func stageDetail(e *corev1.Event) string {
	detail := e.Message
	switch e.Reason {
	case "Pulling":
		detail = strings.Trim(strings.TrimPrefix(detail, "Pulling image "), `"`)
	case "Pulled":
		// Such as: Successfully pulled image "nginx" in 2.1s (2.1s including waiting). Image size: 72 bytes.
		detail = strings.TrimPrefix(detail, "Successfully pulled image ")
		detail = strings.TrimPrefix(detail, "Container image ")
		detail, _, _ = strings.Cut(detail, " and can be accessed by the pod")
		detail = strings.ReplaceAll(detail, `"`, "")
	case "Created", "Started":
		detail = containerOf(e)
	}
	const most = 200
	if runes := []rune(detail); len(runes) > most {
		detail = string(runes[:most]) + "…"
	}
	if e.Count > 1 && !e.LastTimestamp.IsZero() {
		detail = strings.TrimPrefix(detail+fmt.Sprintf(", the last of %d at %s", e.Count, e.LastTimestamp.UTC().Format(time.RFC3339)), ", ")
	}
	return detail
}

// containerOf returns the name of the container that an Event is about: the object's field path is spec.containers{main}, and messages of older
// kubelets end with it.
func containerOf(e *corev1.Event) string {
	if _, name, ok := strings.Cut(e.InvolvedObject.FieldPath, "{"); ok {
		return strings.TrimSuffix(name, "}")
	}
	for _, prefix := range []string{"Created container", "Started container"} {
		if name, ok := strings.CutPrefix(e.Message, prefix); ok {
			return strings.TrimLeft(name, ": ")
		}
	}
	return e.Message
}
