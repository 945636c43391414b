package verify

import (
	"encoding/json"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkplugins "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// profile is a profile of the scheduler, divided into several frameworks. own has the plugins that look at a pod and one node.
// among has one framework for each plugin that looks at all nodes; it is asked once for the classes that are the same to it. If
// the profile cannot be divided, own has all plugins and among is empty.
type profile struct {
	own   framework.Framework
	among []allNodes
}

// allNodes is the framework of one plugin that looks at all nodes. Its key is equal for pods that are the same to the plugin.
type allNodes struct {
	fw   framework.Framework
	name string
	key  func(*corev1.Pod) string
}

func newProfile(build func(*config.KubeSchedulerProfile) (framework.Framework, error), of *config.KubeSchedulerProfile, leave []string) (profile, error) {
	p, err := divided(build, of, leave)
	if err == nil {
		return p, nil
	}
	own, err := build(Stripped(of, dropping(leave)))
	return profile{own: own}, err
}

// divided returns the profile's frameworks.
func divided(build func(*config.KubeSchedulerProfile) (framework.Framework, error), of *config.KubeSchedulerProfile, leave []string) (profile, error) {
	var p profile
	apart := []allNodes{{name: names.PodTopologySpread, key: spreadKey}, {name: names.InterPodAffinity, key: affinityKey}}
	for _, x := range apart {
		keep := []string{x.name, names.PrioritySort, names.DefaultBinder}
		fw, err := build(Stripped(of, func(name string) bool { return !slices.Contains(keep, name) }))
		if err != nil {
			return profile{}, err
		}
		x.fw = fw
		p.among = append(p.among, x)
		leave = append(leave, x.name)
	}
	own, err := build(Stripped(of, dropping(leave)))
	p.own = own
	return p, err
}

// further reports whether the profile has filters that are not Kubernetes' own.
func (p profile) further() bool {
	plugins := p.own.ListPlugins()
	return slices.ContainsFunc(slices.Concat(plugins.PreFilter.Enabled, plugins.Filter.Enabled), func(e config.Plugin) bool { return foreign(e.Name) })
}

// foreign reports whether the plugin is not Kubernetes' own.
func foreign(name string) bool {
	_, ours := frameworkplugins.NewInTreeRegistry()[name]
	return !ours
}

func dropping(list []string) func(string) bool {
	return func(name string) bool { return slices.Contains(list, name) }
}

// Stripped returns a copy of the profile without PostFilter and without the plugins to drop.
func Stripped(profile *config.KubeSchedulerProfile, drop func(string) bool) *config.KubeSchedulerProfile {
	out := profile.DeepCopy()
	if out.Plugins != nil {
		p := out.Plugins
		for _, set := range []*config.PluginSet{
			&p.PreEnqueue, &p.QueueSort, &p.PreFilter, &p.Filter, &p.PostFilter, &p.PreScore, &p.Score, &p.Reserve,
			&p.Permit, &p.PreBind, &p.Bind, &p.PostBind, &p.MultiPoint, &p.PlacementGenerate, &p.PlacementScore,
		} {
			set.Enabled = slices.DeleteFunc(set.Enabled, func(e config.Plugin) bool { return drop(e.Name) })
		}
		p.PostFilter = config.PluginSet{Disabled: []config.Plugin{{Name: "*"}}}
	}
	out.PluginConfig = slices.DeleteFunc(out.PluginConfig, func(a config.PluginConfig) bool { return drop(a.Name) })
	return out
}

// spreadKey is equal for pods for which PodTopologySpread counts the same pods on the same nodes. The pod's own labels are part
// of it if a constraint names their keys, and if the constraints are the profile's, which select by service and owner.
func spreadKey(pod *corev1.Pod) string {
	s := &pod.Spec
	var labels map[string]string
	var owner *metav1.OwnerReference
	if len(s.TopologySpreadConstraints) == 0 || slices.ContainsFunc(s.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
		return len(c.MatchLabelKeys) > 0
	}) {
		labels, owner = pod.Labels, metav1.GetControllerOf(pod)
	}
	var nodes *corev1.NodeAffinity
	if s.Affinity != nil {
		nodes = s.Affinity.NodeAffinity
	}
	return keyOf(pod, struct {
		Labels, Selector map[string]string
		Owner            *metav1.OwnerReference
		Nodes            *corev1.NodeAffinity
		Tolerations      []corev1.Toleration
		Spread           []corev1.TopologySpreadConstraint
	}{labels, s.NodeSelector, owner, nodes, s.Tolerations, s.TopologySpreadConstraints})
}

// affinityKey is equal for pods that are the same to InterPodAffinity.
func affinityKey(pod *corev1.Pod) string {
	var near *corev1.PodAffinity
	var apart *corev1.PodAntiAffinity
	if a := pod.Spec.Affinity; a != nil {
		near, apart = a.PodAffinity, a.PodAntiAffinity
	}
	return keyOf(pod, struct {
		Labels map[string]string
		Near   *corev1.PodAffinity
		Apart  *corev1.PodAntiAffinity
	}{pod.Labels, near, apart})
}

// keyOf returns a key of what a plugin looks at, with the pod's profile and namespace.
func keyOf(pod *corev1.Pod, looksAt any) string {
	text, err := json.Marshal(looksAt)
	if err != nil {
		return string(pod.UID) // Only a channel or a function cannot be marshaled, and a pod has none.
	}
	return pod.Spec.SchedulerName + "/" + pod.Namespace + "/" + string(text)
}
