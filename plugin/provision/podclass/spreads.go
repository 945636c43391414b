package podclass

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/informers"
	appslisters "k8s.io/client-go/listers/apps/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// Spreads holds the topology spread constraints that profiles give to pods that have none.
type Spreads struct {
	constraints  map[string][]corev1.TopologySpreadConstraint
	services     corelisters.ServiceLister
	controllers  corelisters.ReplicationControllerLister
	replicaSets  appslisters.ReplicaSetLister
	statefulSets appslisters.StatefulSetLister
}

// NewSpreads reads the profiles. The informers must not have been started.
func NewSpreads(profiles []config.KubeSchedulerProfile, f informers.SharedInformerFactory) *Spreads {
	s := &Spreads{
		constraints:  map[string][]corev1.TopologySpreadConstraint{},
		services:     f.Core().V1().Services().Lister(),
		controllers:  f.Core().V1().ReplicationControllers().Lister(),
		replicaSets:  f.Apps().V1().ReplicaSets().Lister(),
		statefulSets: f.Apps().V1().StatefulSets().Lister(),
	}
	for i := range profiles {
		s.constraints[profiles[i].SchedulerName] = DefaultConstraints(&profiles[i])
	}
	return s
}

// DefaultConstraints returns the constraints of the profile's PodTopologySpreadArgs. If the arguments list none, the plugin has
// two built-in ones. They are scores for choosing among existing nodes and no user asked for them, so a plan pays nothing for
// them.
func DefaultConstraints(profile *config.KubeSchedulerProfile) []corev1.TopologySpreadConstraint {
	for _, c := range profile.PluginConfig {
		args, ok := c.Args.(*config.PodTopologySpreadArgs)
		if c.Name == names.PodTopologySpread && ok && args.DefaultingType == config.ListDefaulting {
			return args.DefaultConstraints
		}
	}
	return nil
}

// Of returns the constraints that the pod gets from its profile, with the selector that the scheduler derives from the pod's
// services and owner. The key is equal for equal constraints.
func (s *Spreads) Of(pod *corev1.Pod) (out []corev1.TopologySpreadConstraint, key string) {
	constraints := s.constraints[pod.Spec.SchedulerName]
	if len(constraints) == 0 || len(pod.Spec.TopologySpreadConstraints) > 0 {
		return nil, ""
	}
	selector := helper.DefaultSelector(pod, s.services, s.controllers, s.replicaSets, s.statefulSets)
	if selector.Empty() {
		return nil, ""
	}
	for _, c := range constraints {
		c.LabelSelector = labelSelector(selector)
		out = append(out, c)
	}
	return out, selector.String()
}

// labelSelector returns the selector as a field of an object.
func labelSelector(s labels.Selector) *metav1.LabelSelector {
	out := &metav1.LabelSelector{}
	requirements, _ := s.Requirements()
	for _, r := range requirements {
		e := metav1.LabelSelectorRequirement{Key: r.Key(), Values: r.ValuesUnsorted()}
		switch r.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			e.Operator = metav1.LabelSelectorOpIn
		case selection.NotEquals, selection.NotIn:
			e.Operator = metav1.LabelSelectorOpNotIn
		case selection.Exists:
			e.Operator, e.Values = metav1.LabelSelectorOpExists, nil
		case selection.DoesNotExist:
			e.Operator, e.Values = metav1.LabelSelectorOpDoesNotExist, nil
		default:
			continue
		}
		out.MatchExpressions = append(out.MatchExpressions, e)
	}
	return out
}
