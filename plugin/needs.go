package plugin

import (
	"fmt"
	"strings"

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

	"github.com/slipway-k8s/slipway/plugin/plan"
)

// needs knows what a pod needs beyond its spec: what its profile and the objects around it add.
type needs struct {
	// spread are the default constraints of each profile.
	spread       map[string][]corev1.TopologySpreadConstraint
	namespaces   corelisters.NamespaceLister
	services     corelisters.ServiceLister
	controllers  corelisters.ReplicationControllerLister
	replicaSets  appslisters.ReplicaSetLister
	statefulSets appslisters.StatefulSetLister
}

func newNeeds(profiles []config.KubeSchedulerProfile, f informers.SharedInformerFactory) *needs {
	n := &needs{
		spread:       map[string][]corev1.TopologySpreadConstraint{},
		namespaces:   f.Core().V1().Namespaces().Lister(),
		services:     f.Core().V1().Services().Lister(),
		controllers:  f.Core().V1().ReplicationControllers().Lister(),
		replicaSets:  f.Apps().V1().ReplicaSets().Lister(),
		statefulSets: f.Apps().V1().StatefulSets().Lister(),
	}
	for i := range profiles {
		n.spread[profiles[i].SchedulerName] = defaultSpread(&profiles[i])
	}
	return n
}

// defaultSpread are the constraints that the profile's PodTopologySpread gives to pods that have none: those of its
// arguments, or the two that are built into it.
func defaultSpread(profile *config.KubeSchedulerProfile) []corev1.TopologySpreadConstraint {
	for _, c := range profile.PluginConfig {
		args, ok := c.Args.(*config.PodTopologySpreadArgs)
		if c.Name != names.PodTopologySpread || !ok {
			continue
		}
		if args.DefaultingType == config.ListDefaulting {
			return args.DefaultConstraints
		}
	}
	return []corev1.TopologySpreadConstraint{
		{TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, MaxSkew: 3},
		{TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway, MaxSkew: 5},
	}
}

// spreadOf are the constraints that the pod gets from its profile, with the selector that the scheduler derives from the
// pod's services and owner; key tells them apart.
func (n *needs) spreadOf(pod *corev1.Pod) (out []corev1.TopologySpreadConstraint, key string) {
	constraints := n.spread[pod.Spec.SchedulerName]
	if len(constraints) == 0 || len(pod.Spec.TopologySpreadConstraints) > 0 {
		return nil, ""
	}
	selector := helper.DefaultSelector(pod, n.services, n.controllers, n.replicaSets, n.statefulSets)
	if selector.Empty() {
		return nil, ""
	}
	for _, c := range constraints {
		c.LabelSelector = labelSelector(selector)
		out = append(out, c)
	}
	return out, selector.String()
}

// labelSelector is the selector as an object's field.
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

// namespaceLabels are the labels of all namespaces, by name.
func (n *needs) namespaceLabels() (map[string]map[string]string, error) {
	list, err := n.namespaces.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("namespaces: %w", err)
	}
	out := make(map[string]map[string]string, len(list))
	for _, ns := range list {
		out[ns.Name] = ns.Labels
	}
	return out, nil
}

// classes groups the pods by identical needs, in the order of their first pod.
func (p *planner) classes(entries []entry) []plan.Class {
	var out []plan.Class
	at := map[string]int{}
	only := map[string]string{}
	for _, e := range entries {
		if e.class == "" {
			e.class = plan.ClassKey(e.pod)
		}
		spread, selector := p.needs.spreadOf(e.pod)
		key := strings.TrimSuffix(e.class+"/"+selector, "/")
		i, ok := at[key]
		if !ok {
			i = len(out)
			at[key] = i
			out = append(out, plan.Class{Key: key, Pod: e.pod, DefaultSpread: spread, Volumes: p.volumes.Of(e.pod)})
		}
		profile := e.pod.Spec.SchedulerName
		if _, ok := only[profile]; !ok {
			only[profile] = p.schedulerOnly(profile)
		}
		ref := refOf(e.pod)
		ref.SchedulerOnly = only[profile]
		out[i].Pods = append(out[i].Pods, ref)
	}
	return out
}
