package simulate

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/internal/window"
	"github.com/slipway-k8s/slipway/launcher/catalog"
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

// fallAsleep returns the objects without the pods that the launcher evicts, or has evicted, since their namespaces sleep: what replaces them waits. The notes say
// how many.
func fallAsleep(objects *input.Objects, now time.Time) (out *input.Objects, notes []string) {
	nodes := disruptable(objects, now)
	gone, budgets := map[string]bool{}, disruption.ReadPodBudgets(podBudgetsOf(objects))
	for _, ns := range objects.Namespaces {
		// What is wrong with windows is what asleepNow returns.
		windows, _ := window.ReadSleep(ns.Name, ns.Annotations)
		span, asleep := windows.Span(now)
		if !asleep || now.IsZero() || !span.Evicts(now) {
			continue
		}
		f := disruption.Sleep{Now: now, Since: span.Since, Disrupts: func(node string) bool { return nodes[node] }}
		for _, p := range objects.Pods {
			if p.Namespace == ns.Name && buffers.NameOf(p.Pod) == "" {
				f.Pods = append(f.Pods, reported(p.Pod))
			}
		}
		plan := disruption.FallAsleep(f)
		let := disruption.LetGo(plan.Evict, budgets, now)
		for _, pod := range let {
			gone[pod.Namespace+"/"+pod.Name] = true
		}
		if len(let) > 0 {
			notes = append(notes, fmt.Sprintf("namespace %s sleeps until %s: %s evicted", ns.Name, span.Until.UTC().Format(time.RFC3339), catalog.CountText(len(let), "pod")))
		}
	}
	if len(gone) == 0 {
		return objects, nil
	}
	left := *objects
	left.Pods = slices.DeleteFunc(slices.Clone(objects.Pods), func(p input.Pod) bool { return gone[p.Namespace+"/"+p.Name] })
	return &left, notes
}

// disruptable returns the nodes from which pods are evicted when their namespaces fall asleep.
func disruptable(objects *input.Objects, now time.Time) map[string]bool {
	pools := map[string]bool{}
	for _, p := range objects.NodePools {
		pools[p.Name] = !disruption.Paused(p)
	}
	out := map[string]bool{}
	for _, n := range objects.Nodes {
		out[n.Name] = pools[n.Labels[karpv1.NodePoolLabelKey]] && !disruption.ProtectionOfNode(n.Annotations, n.CreationTimestamp.Time, now).Active
	}
	return out
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
