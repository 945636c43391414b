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

// containerStarted is the moment at which one container has started, and fitsNowhere that at which the scheduler found no node.
const containerStarted, fitsNowhere = "container started", "fits no node"

// Stages returns what Events report of a pod, at most 60 moments in no order: the scheduler's when it first found no node and when one was launched
// for the pod, the kubelet's about images and containers.
func Stages(events []corev1.Event) []Moment {
	known := stages()
	var out timeline
	var failed *corev1.Event
	for i := range events {
		e := &events[i]
		byKubelet := cmp.Or(e.ReportingController, e.Source.Component) == "kubelet"
		switch what, ok := known[e.Reason]; {
		case len(out) == mostStages:
		case ok && byKubelet:
			out.add(firstTime(e), what, stageDetail(e))
		case e.Reason == "Nominated" && !byKubelet:
			out.add(firstTime(e), "promised a node", stageDetail(e))
		case e.Reason == "FailedScheduling" && !byKubelet && (failed == nil || firstTime(e).Before(firstTime(failed))):
			failed = e
		}
	}
	if failed != nil {
		out.add(firstTime(failed), fitsNowhere, stageDetail(failed))
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
