package gauges

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/resource"

	"github.com/slipway-k8s/slipway/launcher/drain"
)

// sum is what pods ask for together, by the metric that tells it.
func sum(pods []*corev1.Pod) map[string]corev1.ResourceList {
	out := map[string]corev1.ResourceList{
		"total_pod_requests": {}, "total_pod_limits": {}, "total_daemon_requests": {}, "total_daemon_limits": {},
	}
	for _, pod := range pods {
		if drain.Terminal(pod) {
			continue
		}
		requests, limits := resource.PodRequests(pod, resource.PodResourcesOptions{}), resource.PodLimits(pod, resource.PodResourcesOptions{})
		add(out["total_pod_requests"], requests)
		add(out["total_pod_limits"], limits)
		if drain.OfDaemonSet(pod) {
			add(out["total_daemon_requests"], requests)
			add(out["total_daemon_limits"], limits)
		}
	}
	return out
}

func add(to, from corev1.ResourceList) {
	for name, quantity := range from {
		have := to[name]
		have.Add(quantity)
		to[name] = have
	}
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

// totals of a cluster, by the name that metrics give a resource.
type totals map[string]float64

func (t totals) add(list corev1.ResourceList) {
	for name, quantity := range list {
		t[snake(string(name))] += quantity.AsApproximateFloat64()
	}
}
