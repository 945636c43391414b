package plugin

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	frameworkplugins "k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/profile"

	"github.com/slipway-k8s/slipway/plugin/plan"
)

// profiles are the schedulers whose pods are served: the scheduler's own profiles, and other schedulers that are adopted. It never
// changes.
type profiles struct {
	// served are the names of the profiles with NodeLaunch, as the configuration has them: the first is that of adopted pods and of buffers'.
	served []string
	// adopted are the names of other schedulers.
	adopted []string
	// frameworks are the scheduler's, by the names of the profiles.
	frameworks profile.Map
	// extenders are the scheduler's, configured is their configuration.
	extenders  []fwk.Extender
	configured []config.Extender
}

// serves reports whether the profile has NodeLaunch.
func (p *profiles) serves(name string) bool { return slices.Contains(p.served, name) }

// adopts reports whether pods of that scheduler are served when it finds no node for them.
func (p *profiles) adopts(scheduler string) bool { return slices.Contains(p.adopted, scheduler) }

// plans reports whether nodes are planned for the pod.
func (p *profiles) plans(pod *corev1.Pod) bool {
	return p.serves(pod.Spec.SchedulerName) || p.adopts(pod.Spec.SchedulerName)
}

// ours returns an adopted pod as one of the first profile, which judges the nodes that are planned for it, and any other pod as
// it is.
func (p *profiles) ours(pod *corev1.Pod) *corev1.Pod {
	if !p.adopts(pod.Spec.SchedulerName) {
		return pod
	}
	out := *pod
	out.Spec.SchedulerName = p.served[0]
	return &out
}

// schedulerOnly returns why only the scheduler's own cycle may bind pods of the profile: plugins that are not Kubernetes' own are
// called between the choice of a node and the binding. Empty if there are none.
func (p *profiles) schedulerOnly(name string) string {
	fw, ok := p.frameworks[name]
	if !ok {
		return ""
	}
	inTree := sets.KeySet(frameworkplugins.NewInTreeRegistry())
	plugins := fw.ListPlugins()
	for _, point := range []struct {
		name string
		set  config.PluginSet
	}{{"Reserve", plugins.Reserve}, {"Permit", plugins.Permit}, {"PreBind", plugins.PreBind}} {
		for _, pl := range point.set.Enabled {
			if !inTree.Has(pl.Name) && pl.Name != NodeLaunchName && pl.Name != NodeReserveName {
				return fmt.Sprintf("plugin %s at %s", pl.Name, point.name)
			}
		}
	}
	return ""
}

// gathers reports whether pods of the profile wait for their gang before they are bound: NodeLaunch is called at Permit and at Reserve.
func (p *profiles) gathers(name string) bool {
	fw, ok := p.frameworks[name]
	if !ok {
		return false
	}
	has := func(set config.PluginSet) bool {
		return slices.ContainsFunc(set.Enabled, func(pl config.Plugin) bool { return pl.Name == NodeLaunchName })
	}
	plugins := fw.ListPlugins()
	return has(plugins.Permit) && has(plugins.Reserve)
}

// grouped returns why only the scheduler may bind the pod: kube-scheduler holds the pods of a PodGroup at Permit until as many as it wants have a node (KEP-4671).
// Empty for other pods.
func grouped(pod *corev1.Pod) string {
	if pod.Spec.SchedulingGroup == nil {
		return ""
	}
	return "kube-scheduler binds the pods of its scheduling group"
}

// gathering returns why only the scheduler may bind the pod: its gang is bound together. Empty for other pods.
func (p *profiles) gathering(pod *corev1.Pod) string {
	if g := plan.GangOf(pod); g.Size > 1 && p.gathers(pod.Spec.SchedulerName) {
		return "pods of gang " + g.Name + " are bound together"
	}
	return ""
}

// extended returns why only the scheduler may bind the pod: an extender binds it, or filters nodes by what it knows of nodes that exist.
// Empty for other pods.
func (p *profiles) extended(pod *corev1.Pod) string {
	for _, e := range p.extenders {
		if !e.IsInterested(pod) {
			continue
		}
		names := slices.ContainsFunc(p.configured, func(c config.Extender) bool { return c.URLPrefix == e.Name() && c.NodeCacheCapable })
		if e.IsBinder() || e.IsFilter() && names {
			return "extender " + e.Name() + " takes part"
		}
	}
	return ""
}
