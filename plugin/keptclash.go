package plugin

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	fwk "k8s.io/kube-scheduler/framework"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"
)

// clash says what keeps the pod from running on the node beside those that have room there: a host port, or that one keeps the
// other off. Empty for nothing.
func (n *needs) clash(pod *corev1.Pod, node *corev1.Node, waiting []roomNeed) string {
	for i := range waiting {
		need := &waiting[i]
		if need.pod == nil {
			continue
		}
		if port := samePort(pod, need.pod); port != 0 {
			return fmt.Sprintf("host port %d, for %s", port, need.title())
		}
		if n.apart(pod, need.pod, node) || n.apart(need.pod, pod, node) {
			return "its anti-affinity, for " + need.title()
		}
	}
	return ""
}

// samePort is a host port that both pods want; 0 for none.
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

// apart says whether the pod's required anti-affinity keeps the other off its node.
func (n *needs) apart(pod, other *corev1.Pod, node *corev1.Node) bool {
	if a := pod.Spec.Affinity; a == nil || a.PodAntiAffinity == nil {
		return false
	}
	info, err := framework.NewPodInfo(pod)
	if err != nil {
		return false // InterPodAffinity says so of the pod itself.
	}
	var of labels.Set
	if ns, err := n.namespaces.Get(other.Namespace); err == nil {
		of = ns.Labels
	}
	for _, term := range info.GetRequiredAntiAffinityTerms() {
		if _, ok := node.Labels[term.TopologyKey]; ok && term.Matches(other, of) {
			return true
		}
	}
	return false
}

// spoilt says whether a pod on the node keeps one of the needs off it.
func (n *needs) spoilt(info fwk.NodeInfo, waiting []roomNeed) bool {
	for _, pi := range info.GetPods() {
		if p := pi.GetPod(); !podutil.IsPodTerminal(p) && p.DeletionTimestamp == nil && n.clash(p, info.Node(), waiting) != "" {
			return true
		}
	}
	return false
}
