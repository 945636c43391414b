package plugin

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// amount is the quantity in the unit in which the scheduler counts the resource.
func amount(name corev1.ResourceName, q resource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

// available is how much of the resource the list holds.
func available(name corev1.ResourceName, r fwk.Resource) int64 {
	switch name {
	case corev1.ResourceCPU:
		return r.GetMilliCPU()
	case corev1.ResourceMemory:
		return r.GetMemory()
	case corev1.ResourceEphemeralStorage:
		return r.GetEphemeralStorage()
	default:
		return r.GetScalarResources()[name]
	}
}

func ownedByDaemonSet(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "DaemonSet"
}

// startupTaint says whether a taint of this key goes before the node takes pods.
func startupTaint(key string) bool {
	switch key {
	case catalog.StartingTaintKey, corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable,
		corev1.TaintNodeNetworkUnavailable, "node.cloudprovider.kubernetes.io/uninitialized":
		return true
	}
	return false
}
