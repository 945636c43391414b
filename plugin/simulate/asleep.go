package simulate

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/internal/window"
	"github.com/slipway-k8s/slipway/plugin/buffers"
	"github.com/slipway-k8s/slipway/plugin/explain"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
)

// asleepNow returns until when the namespaces sleep that do now, and what is wrong with the windows of any. A simulation without a time has none that sleep.
func asleepNow(objects *input.Objects, now time.Time) (until map[string]time.Time, problems []input.Problem) {
	until = map[string]time.Time{}
	for _, ns := range objects.Namespaces {
		windows, err := window.ReadSleep(ns.Name, ns.Annotations)
		if err != nil {
			problems = append(problems, input.Problem{Object: "Namespace " + ns.Name, Field: "metadata.annotations", Message: err.Error()})
		}
		if span, asleep := windows.Span(now); asleep && !now.IsZero() {
			until[ns.Name] = span.Until
		}
	}
	return until, problems
}

// sleeps returns why a pending pod waits for its namespace; empty if it does not. DaemonSet pods do not wait, and CapacityBuffers do not sleep.
func sleeps(pod input.Pod, until map[string]time.Time) string {
	ends, asleep := until[pod.Namespace]
	buffer := buffers.NameOf(pod.Pod)
	if owner := metav1.GetControllerOf(pod); !asleep || buffer != "" || owner != nil && owner.Kind == "DaemonSet" {
		return ""
	}
	return explain.Asleep(pod.Namespace, ends).Text()
}

// awake returns the pods without those that wait for their namespace, which become held.
func awake(pods []input.Pod, until map[string]time.Time, out *Outcome) []input.Pod {
	if len(until) == 0 {
		return pods
	}
	left := make([]input.Pod, 0, len(pods))
	for _, p := range pods {
		if why := sleeps(p, until); p.Spec.NodeName == "" && p.DeletionTimestamp == nil && why != "" {
			out.Held = append(out.Held, Held{Pod: p.Namespace + "/" + p.Name, Code: explain.CodeAsleep, Reason: why})
			continue
		}
		left = append(left, p)
	}
	return left
}
