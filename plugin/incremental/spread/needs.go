package spread

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"
	"k8s.io/utils/ptr"

	"github.com/slipway-k8s/slipway/plugin/incremental/memory"
)

// constraint is one that filters, or one that scores.
type constraint struct {
	maxSkew, minDomains int32
	// key is the label of nodes whose values are the topologies.
	key      string
	selector labels.Selector
	// affinity is true where only nodes count that the pod selects.
	affinity bool
	// later is true where each node is a topology of its own that is only scored: its pods are counted then.
	later bool
}

// needs are what a pod filters by, or scores by.
type needs struct {
	constraints []constraint
	// taints is true where a node counts only while the pod tolerates its taints, which change while no label does.
	taints bool
	// partly is true where a node also counts that has not all of the topologies.
	partly bool
}

// needsOf returns the pod's own constraints of one kind.
func needsOf(pod *corev1.Pod, kind corev1.UnsatisfiableConstraintAction) (out needs, err error) {
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		if c.WhenUnsatisfiable != kind {
			continue
		}
		next := constraint{
			maxSkew: c.MaxSkew, minDomains: ptr.Deref(c.MinDomains, 1), key: c.TopologyKey,
			affinity: ptr.Deref(c.NodeAffinityPolicy, corev1.NodeInclusionPolicyHonor) == corev1.NodeInclusionPolicyHonor,
			later:    kind == corev1.ScheduleAnyway && c.TopologyKey == corev1.LabelHostname,
		}
		if next.selector, err = selectorOf(c, pod.Labels); err != nil {
			return needs{}, err
		}
		out.constraints = append(out.constraints, next)
		out.taints = out.taints || ptr.Deref(c.NodeTaintsPolicy, corev1.NodeInclusionPolicyIgnore) == corev1.NodeInclusionPolicyHonor
	}
	return out, nil
}

// selectorOf returns the constraint's selector with the pod's values of its matchLabelKeys.
func selectorOf(c *corev1.TopologySpreadConstraint, of map[string]string) (labels.Selector, error) {
	selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
	if err != nil {
		return nil, err
	}
	match := labels.Set{}
	for _, key := range c.MatchLabelKeys {
		if value, ok := of[key]; ok {
			match[key] = value
		}
	}
	own, selects := selector.Requirements()
	if len(match) == 0 || !selects {
		return selector, nil
	}
	return labels.SelectorFromSet(match).Add(own...), nil
}

// key is equal for pods for which the same pods and nodes count.
func (n needs) key(pod *corev1.Pod) (memory.Key, error) {
	type part struct {
		Skew, Domains        int32
		Key, Selector        string
		All, Affinity, Later bool
	}
	parts := make([]part, len(n.constraints))
	for i := range n.constraints {
		c := &n.constraints[i]
		parts[i] = part{c.maxSkew, c.minDomains, c.key, c.selector.String(), c.selector.Empty(), c.affinity, c.later} // One that selects all has the text of one that selects none.
	}
	var required *corev1.NodeSelector
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		required = a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	return memory.KeyOf(struct {
		Namespace string
		Partly    bool
		Parts     []part
		Nodes     map[string]string
		Required  *corev1.NodeSelector
	}{pod.Namespace, n.partly, parts, pod.Spec.NodeSelector, required})
}

// defaults are Kubernetes' constraints for pods that have none, but a Service, a ReplicaSet or another such owner that selects them.
type defaults struct {
	services     corelisters.ServiceLister
	controllers  corelisters.ReplicationControllerLister
	replicaSets  appslisters.ReplicaSetLister
	statefulSets appslisters.StatefulSetLister
	// synced reports whether all Services are known.
	synced cache.InformerSynced
}

func newDefaults(f informers.SharedInformerFactory) defaults {
	return defaults{
		f.Core().V1().Services().Lister(), f.Core().V1().ReplicationControllers().Lister(), f.Apps().V1().ReplicaSets().Lister(), f.Apps().V1().StatefulSets().Lister(),
		f.Core().V1().Services().Informer().HasSynced,
	}
}

// leave reports whether the pod has no constraints by default, for sure: its owner may be one that is not known yet.
func (d defaults) leave(pod *corev1.Pod) bool {
	if owner := metav1.GetControllerOf(pod); owner != nil && (owner.Kind == "ReplicaSet" || owner.Kind == "StatefulSet" || owner.Kind == "ReplicationController") {
		return false
	}
	return d.synced() && len(d.of(pod).constraints) == 0
}

// of returns what Kubernetes scores the pod by (systemDefaultConstraints in its podtopologyspread/plugin.go).
func (d defaults) of(pod *corev1.Pod) needs {
	selector := helper.DefaultSelector(pod, d.services, d.controllers, d.replicaSets, d.statefulSets)
	if selector.Empty() {
		return needs{partly: true}
	}
	return needs{partly: true, constraints: []constraint{
		{maxSkew: 3, minDomains: 1, key: corev1.LabelHostname, selector: selector, affinity: true, later: true},
		{maxSkew: 5, minDomains: 1, key: corev1.LabelTopologyZone, selector: selector, affinity: true},
	}}
}
