package reservations

import (
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	corelisters "k8s.io/client-go/listers/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/slipway-k8s/slipway/plugin/plan/relations"
)

// Clash returns what keeps the pod from running on the node beside those that have room there: a host port, or the required
// anti-affinity of either. Empty for nothing.
func Clash(pod *corev1.Pod, node *corev1.Node, waiting []Need, namespaces corelisters.NamespaceLister) string {
	own := sync.OnceValue(func() []fwk.AffinityTerm { return repelling(pod) })
	for i := range waiting {
		need := &waiting[i]
		if need.Pod == nil {
			continue
		}
		if port := samePort(pod, need.Pod); port != 0 {
			return fmt.Sprintf("host port %d", port)
		}
		if apart(own(), need.Pod, node, namespaces) {
			return "its anti-affinity"
		}
		if (!need.Daemon || relations.DaemonRepels(need.Pod, pod)) && apart(need.repelling, pod, node, namespaces) {
			return "its anti-affinity"
		}
	}
	return ""
}

// samePort returns a host port that both pods want, 0 for none.
func samePort(a, b *corev1.Pod) int32 {
	ports := schedutil.GetHostPorts(a)
	if len(ports) == 0 {
		return 0
	}
	used := fwk.HostPortInfo{}
	for _, p := range schedutil.GetHostPorts(b) {
		used.Add(p.HostIP, string(p.Protocol), p.HostPort)
	}
	for _, p := range ports {
		if used.CheckConflict(p.HostIP, string(p.Protocol), p.HostPort) {
			return p.HostPort
		}
	}
	return 0
}

// repelling returns the pod's required anti-affinity; none where it has more terms than relations.MostTerms.
func repelling(pod *corev1.Pod) []fwk.AffinityTerm {
	if a := pod.Spec.Affinity; a == nil || a.PodAntiAffinity == nil || len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > relations.MostTerms {
		return nil
	}
	alone := &corev1.Pod{ObjectMeta: pod.ObjectMeta}
	alone.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
	}}
	info, err := framework.NewPodInfo(alone)
	if err != nil {
		return nil // InterPodAffinity reports that on the pod itself.
	}
	return info.GetRequiredAntiAffinityTerms()
}

// apart reports whether the required anti-affinity keeps the other pod off the node.
func apart(terms []fwk.AffinityTerm, other *corev1.Pod, node *corev1.Node, namespaces corelisters.NamespaceLister) bool {
	if len(terms) == 0 {
		return false
	}
	var of labels.Set
	if ns, err := namespaces.Get(other.Namespace); err == nil {
		of = ns.Labels
	}
	for _, term := range terms {
		if _, ok := node.Labels[term.TopologyKey]; ok && term.Matches(other, of) {
			return true
		}
	}
	return false
}

// conflicts reports whether a pod on the node keeps one of the needs off it.
func conflicts(info fwk.NodeInfo, waiting []Need, namespaces corelisters.NamespaceLister) bool {
	for _, pi := range info.GetPods() {
		if p := pi.GetPod(); !podutil.IsPodTerminal(p) && p.DeletionTimestamp == nil && Clash(p, info.Node(), waiting, namespaces) != "" {
			return true
		}
	}
	return false
}
