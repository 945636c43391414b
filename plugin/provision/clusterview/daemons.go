package clusterview

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/kubernetes/pkg/controller/daemon"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/plan/nodematch"
)

// daemonSet is a DaemonSet, compiled once for all nodes that are asked about: each instance type in each zone is one, and a tenant's
// DaemonSet may have some thousand tolerations and terms, which its pods share.
type daemonSet struct {
	*appsv1.DaemonSet
	// template is the pod of no node in particular.
	template *framework.PodInfo
	// requests are what that pod asks for.
	requests corev1.ResourceList
	// terms are the required node affinity, one of which must match; each matches where all of its selectors do. Nil for no affinity.
	terms [][]*nodeaffinity.LazyErrorNodeSelector
}

// selectorSize is how many expressions one selector has. To compile a selector takes the square of their number (labels.Selector sorts
// them at each that is added).
const selectorSize = 64

func newDaemonSet(ds *appsv1.DaemonSet) *daemonSet {
	d := &daemonSet{DaemonSet: ds, template: podInfo(daemon.NewPod(ds, ""))}
	d.requests = plan.PodRequests(d.template.Pod)
	a := ds.Spec.Template.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return d
	}
	d.terms = [][]*nodeaffinity.LazyErrorNodeSelector{}
	for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		d.terms = append(d.terms, selectors(term))
	}
	return d
}

// selectors are the term in parts. An empty term matches no node, as an empty part does.
func selectors(term corev1.NodeSelectorTerm) []*nodeaffinity.LazyErrorNodeSelector {
	part := func(t corev1.NodeSelectorTerm) *nodeaffinity.LazyErrorNodeSelector {
		return nodeaffinity.NewLazyErrorNodeSelector(&corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{t}})
	}
	var out []*nodeaffinity.LazyErrorNodeSelector
	if len(term.MatchFields) > 0 || len(term.MatchExpressions) == 0 {
		out = append(out, part(corev1.NodeSelectorTerm{MatchFields: term.MatchFields}))
	}
	for list := range slices.Chunk(term.MatchExpressions, selectorSize) {
		out = append(out, part(corev1.NodeSelectorTerm{MatchExpressions: list}))
	}
	return out
}

// runsOn reports whether the DaemonSet's controller makes a pod for the node, as daemon.NodeShouldRunDaemonPod does.
func (d *daemonSet) runsOn(node *corev1.Node) bool {
	s := &d.template.Pod.Spec
	if plan.Oversized(d.requests, node.Status.Allocatable) {
		return false
	}
	if name := d.Spec.Template.Spec.NodeName; name != "" && name != node.Name {
		return false
	}
	for k, v := range s.NodeSelector {
		if is, has := node.Labels[k]; !has || is != v {
			return false
		}
	}
	if d.terms != nil && !slices.ContainsFunc(d.terms, func(parts []*nodeaffinity.LazyErrorNodeSelector) bool { return matchAll(parts, node) }) {
		return false
	}
	_, tolerates := nodematch.Tolerates(s.Tolerations, node.Spec.Taints)
	return tolerates
}

// matchAll reports whether all of the selectors match the node. As in the DaemonSet controller, one that cannot be parsed does not.
func matchAll(list []*nodeaffinity.LazyErrorNodeSelector, node *corev1.Node) bool {
	for _, s := range list {
		if match, err := s.Match(node); err != nil || !match {
			return false
		}
	}
	return true
}

// pod is the DaemonSet's pod on the node.
func (d *daemonSet) pod(node string) *framework.PodInfo {
	info, pod := *d.template, *d.template.Pod
	pod.Spec.NodeName = node
	pod.UID = types.UID("daemon/" + string(d.UID) + "/" + node)
	pod.Name = d.Name + "-" + node
	info.Pod = &pod
	return &info
}
