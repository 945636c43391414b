package gauges

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"github.com/slipway-k8s/slipway/internal/disruption"
)

// sum returns the sum of the pods' requests for the named resources, by metric.
func sum(pods []*corev1.Pod, names []corev1.ResourceName) map[string]amounts {
	out := map[string]amounts{
		"total_pod_requests": {}, "total_pod_limits": {}, "total_daemon_requests": {}, "total_daemon_limits": {},
	}
	for _, pod := range pods {
		if disruption.Terminal(pod) {
			continue
		}
		requests := amountsOf(resource.PodRequests(pod, resource.PodResourcesOptions{}), names)
		limits := amountsOf(resource.PodLimits(pod, resource.PodResourcesOptions{}), names)
		out["total_pod_requests"].add(requests)
		out["total_pod_limits"].add(limits)
		if disruption.OfDaemonSet(pod) {
			out["total_daemon_requests"].add(requests)
			out["total_daemon_limits"].add(limits)
		}
	}
	return out
}

func less(from, what corev1.ResourceList) corev1.ResourceList {
	out := corev1.ResourceList{}
	for name, quantity := range from {
		left := quantity.DeepCopy()
		left.Sub(what[name])
		out[name] = left
	}
	return out
}
