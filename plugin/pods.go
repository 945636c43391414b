package plugin

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/consolidate"
	"github.com/slipway-k8s/slipway/plugin/provision/clusterview"
)

// pinned returns why no new node can take the pod, by its spec alone. Empty if one might. A DaemonSet's pod belongs to a node
// that exists. withClaims means that pods with ResourceClaims are planned for.
func pinned(pod *corev1.Pod, withClaims bool) string {
	if ownedByDaemonSet(pod) {
		return "a DaemonSet's pod runs on the node it was made for"
	}
	if name, ok := disruption.NodeByName(pod); ok {
		return "the pod is pinned to node " + name
	}
	if len(pod.Spec.ResourceClaims) > 0 && !withClaims {
		return "pods with resourceClaims run on existing nodes only unless ignoreDRARequests is false"
	}
	return ""
}

// ownedByDaemonSet reports whether a DaemonSet controls the pod.
func ownedByDaemonSet(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && owner.Kind == "DaemonSet"
}

// victimsTerminating reports whether pods of lower priority that were preempted are terminating on the node. As for DefaultPreemption, pods that
// terminate for another reason, such as those of a node that drains, are no victims: nothing says that the pod fits once they have ended.
func victimsTerminating(info fwk.NodeInfo, pod *corev1.Pod) bool {
	priority := corev1helpers.PodPriority(pod)
	return slices.ContainsFunc(info.GetPods(), func(p fwk.PodInfo) bool {
		other := p.GetPod()
		return other.DeletionTimestamp != nil && corev1helpers.PodPriority(other) < priority && preempted(other)
	})
}

// preempted reports whether a scheduler has preempted the pod.
func preempted(pod *corev1.Pod) bool {
	c := conditions.Pod(pod, corev1.DisruptionTarget)
	return c != nil && c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonPreemptionByScheduler
}

// refNames names the first of the pods, and how many more there are.
func refNames(refs []catalog.PodRef) string {
	if len(refs) == 0 {
		return ""
	}
	name := refs[0].Namespace + "/" + refs[0].Name
	if more := len(refs) - 1; more > 0 {
		name += fmt.Sprintf(" (and %d more)", more)
	}
	return name
}

// offerOf returns what a node was bought as, by its labels.
func offerOf(n *corev1.Node) consolidate.Offer {
	return consolidate.Offer{
		NodePool: n.Labels[nodePoolLabel], InstanceType: n.Labels[corev1.LabelInstanceTypeStable],
		Zone: n.Labels[corev1.LabelTopologyZone], CapacityType: n.Labels[clusterview.LabelCapacityType],
	}
}

// attached reports whether a node must be able to take the volume.
func attached(v corev1.Volume) bool {
	return v.ConfigMap == nil && v.Secret == nil && v.DownwardAPI == nil && v.Projected == nil && v.EmptyDir == nil &&
		v.HostPath == nil && v.Image == nil
}

// selectsNamespaces reports whether a required affinity term of the pod has a namespace selector.
func selectsNamespaces(pod *corev1.Pod) bool {
	if pod.Spec.Affinity == nil {
		return false
	}
	selects := func(t corev1.PodAffinityTerm) bool { return t.NamespaceSelector != nil }
	with, without := pod.Spec.Affinity.PodAffinity, pod.Spec.Affinity.PodAntiAffinity
	return with != nil && slices.ContainsFunc(with.RequiredDuringSchedulingIgnoredDuringExecution, selects) ||
		without != nil && slices.ContainsFunc(without.RequiredDuringSchedulingIgnoredDuringExecution, selects)
}
