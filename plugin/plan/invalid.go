package plan

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// InvalidRequest returns which request of the pod cannot be counted, with its container; empty where all can. Plans do not count the pods of
// a DaemonSet with such a request: they never run.
func InvalidRequest(pod *corev1.Pod) string { return invalidRequest(&pod.Spec, PodRequests(pod)) }

// Oversized reports whether a pod asks for more than a node has, whatever else runs there: it never runs on that node. allocatable without
// CPUs is that of a node which has not reported it: no pod is too large for it.
func Oversized(requests, allocatable corev1.ResourceList) bool {
	if allocatable.Cpu().IsZero() {
		return false
	}
	for name, q := range requests {
		if has := allocatable[name]; q.Sign() > 0 && q.Cmp(has) > 0 {
			return true
		}
	}
	return false
}

// invalidRequest says which request of the pod cannot be counted, with its container; empty where all can. What a pod asks for in sum is
// at least 0 and at most maxAmount of each resource, as is what each of its containers asks for.
func invalidRequest(spec *corev1.PodSpec, sum corev1.ResourceList) string {
	ask := func(where string, list corev1.ResourceList) string {
		for _, name := range sortedNames(list) {
			switch q := list[name]; {
			case q.Sign() < 0:
				return fmt.Sprintf("%s requests %s of %s; a request is 0 or more", where, q.String(), name)
			case amount(name, q) >= maxAmount:
				return fmt.Sprintf("%s requests %s of %s, more than any node can have", where, q.String(), name)
			}
		}
		return ""
	}
	for _, list := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			if why := ask("container "+list[i].Name, list[i].Resources.Requests); why != "" {
				return why
			}
		}
	}
	if spec.Resources != nil {
		if why := ask("the pod", spec.Resources.Requests); why != "" {
			return why
		}
	}
	if why := ask("the overhead of its RuntimeClass", spec.Overhead); why != "" {
		return why
	}
	return ask("the pod in sum", sum)
}
