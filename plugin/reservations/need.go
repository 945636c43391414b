package reservations

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/intake"
)

// Need is the room of one pod that is to come to a node.
type Need struct {
	// Owner is the pod's controller; none where it does not matter.
	Owner intake.Controller
	// Name of the pod, or of its DaemonSet, with the namespace.
	Name string
	// Priority of the pod.
	Priority int32
	// Requests of the pod.
	Requests corev1.ResourceList
	// Pod whose room it is: it may have host ports, and anti-affinity. Nil for none.
	Pod *corev1.Pod
	// Daemon says that the pod is one of a DaemonSet: relations.DaemonRepels says what its anti-affinity does.
	Daemon bool
	// repelling is the required anti-affinity of the pod, read once for all nodes and pods that it is compared with.
	repelling []fwk.AffinityTerm
}

// NeedOf returns the room of the pod, under its name. Required anti-affinity of more than relations.MostTerms terms, with which no pod is planned, does not count.
func NeedOf(pod *corev1.Pod) Need {
	return Need{
		Name: pod.Namespace + "/" + pod.Name, Priority: corev1helpers.PodPriority(pod), Pod: pod, repelling: repelling(pod),
		Requests: resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}),
	}
}

// Against returns the needs of the pod's priority or a higher one. The others give way to it.
func Against(pod *corev1.Pod, waiting []Need) []Need {
	priority := corev1helpers.PodPriority(pod)
	return slices.DeleteFunc(waiting, func(n Need) bool { return n.Priority < priority })
}

// Short returns which resource the pod would take from the needs on the node. Empty if the pod fits beside them. It names neither the needs' pods, which may be
// another tenant's, nor amounts: kube-scheduler's message has each reason that differs, and that of a thousand nodes would be a hundred kilobytes in each pod.
func Short(pod *corev1.Pod, info fwk.NodeInfo, needs []Need) string {
	if len(needs) == 0 {
		return ""
	}
	kept, count := total(needs), len(needs)
	wanted := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	have, used := info.GetAllocatable(), info.GetRequested()
	if len(info.GetPods())+count+1 > have.GetAllowedPodNumber() {
		return string(corev1.ResourcePods)
	}
	for name, reserved := range kept {
		q := wanted[name]
		if q.IsZero() {
			continue
		}
		need := amount(name, q) + amount(name, reserved)
		if need > available(name, have)-available(name, used) {
			return string(name)
		}
	}
	return ""
}

// overdrawn reports whether the needs have no room beside what is on the node.
func overdrawn(info fwk.NodeInfo, needs []Need) bool {
	have, used := info.GetAllocatable(), info.GetRequested()
	kept := total(needs)
	for name, q := range kept {
		if need := amount(name, q); need > 0 && need > available(name, have)-available(name, used) {
			return true
		}
	}
	return len(info.GetPods())+len(needs) > have.GetAllowedPodNumber()
}

// total returns what the pods ask for together.
func total(needs []Need) corev1.ResourceList {
	out := corev1.ResourceList{}
	for _, n := range needs {
		for name, q := range n.Requests {
			sum := out[name]
			sum.Add(q)
			out[name] = sum
		}
	}
	return out
}

// amount returns the quantity in the unit in which the scheduler counts the resource.
func amount(name corev1.ResourceName, q resource.Quantity) int64 {
	if name == corev1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

// available returns how much of the resource the list holds.
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

// Starting reports whether ordinary pods are kept off the node until it has joined.
func Starting(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return StartupTaint(t.Key) })
}

// StartupTaint reports whether a taint of this key is removed before the node takes pods.
func StartupTaint(key string) bool {
	return key == catalog.StartingTaintKey || key == corev1.TaintNodeNetworkUnavailable || catalog.EphemeralTaint(key)
}
