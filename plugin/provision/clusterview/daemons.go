package clusterview

import (
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/kubernetes/pkg/controller/daemon"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/slipway-k8s/slipway/launcher/catalog"
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
	// alternatives are what it asks of labels where they are not all known, of which one must be met; read says that they have been read.
	alternatives []catalog.Requirements
	read         bool
}

// selectorSize is how many expressions one selector has. To compile a selector takes the square of their number (labels.Selector sorts
// them at each that is added).
const selectorSize = 64

func newDaemonSet(ds *appsv1.DaemonSet) *daemonSet {
	pod := daemon.NewPod(ds, "")
	pod.Spec.Affinity = confined(pod)
	d := &daemonSet{DaemonSet: ds, template: podInfo(pod)}
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
func (d *daemonSet) runsOn(node *corev1.Node) bool { return d.runs(node, d.selects) }

// mayRunOn reports whether it may make one for a node that has yet to get some labels: whatever it asks of those may be met.
func (d *daemonSet) mayRunOn(node *corev1.Node, gets map[string]bool) bool {
	return d.runs(node, func(node *corev1.Node) bool { return d.selects(node) || d.maySelect(node, gets) })
}

// maySelect reports whether its node selector and affinity can match the node once that has the labels that it gets.
func (d *daemonSet) maySelect(node *corev1.Node, gets map[string]bool) bool {
	if !d.read {
		// As in the DaemonSet controller, what cannot be parsed matches no node.
		d.alternatives, _ = nodematch.PodRequirements(d.template.Pod)
		d.read = true
	}
	labels := nodematch.NodeLabels(node.Name, node.Labels)
	return slices.ContainsFunc(d.alternatives, func(term catalog.Requirements) bool {
		for key, set := range term {
			value, has := labels[key]
			if has && !set.Has(value) || !has && !set.Absent && !gets[key] {
				return false
			}
		}
		return true
	})
}

// runs is runsOn with a function for its node selector and affinity.
func (d *daemonSet) runs(node *corev1.Node, selects func(*corev1.Node) bool) bool {
	if plan.Oversized(d.requests, node.Status.Allocatable) {
		return false
	}
	if name := d.Spec.Template.Spec.NodeName; name != "" && name != node.Name {
		return false
	}
	if !selects(node) {
		return false
	}
	_, tolerates := nodematch.Tolerates(d.template.Pod.Spec.Tolerations, node.Spec.Taints)
	return tolerates
}

// selects reports whether its node selector and affinity match the node.
func (d *daemonSet) selects(node *corev1.Node) bool {
	for k, v := range d.template.Pod.Spec.NodeSelector {
		if is, has := node.Labels[k]; !has || is != v {
			return false
		}
	}
	return d.terms == nil || slices.ContainsFunc(d.terms, func(parts []*nodeaffinity.LazyErrorNodeSelector) bool { return matchAll(parts, node) })
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
