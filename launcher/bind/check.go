package bind

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/slipway-k8s/slipway/internal/disruption"
)

// Check returns why the kubelet would reject a pod on the actual Node; "" if it would not. A plan uses a predicted Node, and a rejection is
// final (pkg/kubelet/lifecycle/predicate.go): so labels, taints and free capacity are compared again before the binding. onNode are the pods
// that are bound to the node.
func Check(pod *corev1.Pod, node *corev1.Node, onNode []*corev1.Pod) string {
	match, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	if err != nil {
		return "its node affinity cannot be read: " + err.Error()
	}
	if !match {
		return "node " + node.Name + " does not have the labels that it requires"
	}
	if taint := blocking(pod, node.Spec.Taints); taint != "" {
		return "it does not tolerate " + taint
	}
	free := node.Status.Allocatable.DeepCopy()
	room := free.Pods().Value()
	for _, other := range onNode {
		if disruption.Terminal(other) || other.UID == pod.UID {
			continue
		}
		take(free, requests(other))
		room--
	}
	if room < 1 {
		return fmt.Sprintf("node %s has no room for one more pod", node.Name)
	}
	for name, want := range requests(pod) {
		have := free[name]
		if want.Cmp(have) > 0 {
			return fmt.Sprintf("it asks for %s of %s, node %s has %s left", want.String(), name, node.Name, have.String())
		}
	}
	return ""
}

func requests(pod *corev1.Pod) corev1.ResourceList {
	return resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
}

func take(free, used corev1.ResourceList) {
	for name, q := range used {
		if have, ok := free[name]; ok {
			have.Sub(q)
			free[name] = have
		}
	}
}
