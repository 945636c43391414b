package verify

import (
	"slices"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// profile is a scheduler's profile in two frameworks: own has the plugins that look at a pod and one node; among has
// PodTopologySpread and InterPodAffinity, which look at all nodes and are asked once for the classes that they cannot
// tell apart. Where the profile cannot be divided, own has all plugins and among is nil.
type profile struct {
	own, among framework.Framework
}

func newProfile(build func(*config.KubeSchedulerProfile) (framework.Framework, error), of *config.KubeSchedulerProfile, leave []string) (profile, error) {
	own, among := stripped(of, dropping(append(apart(), leave...))), stripped(of, func(name string) bool {
		return !slices.Contains(append(apart(), names.PrioritySort, names.DefaultBinder), name)
	})
	var p profile
	var err error
	if p.among, err = build(among); err == nil {
		if p.own, err = build(own); err == nil {
			return p, nil
		}
	}
	p.among = nil
	p.own, err = build(stripped(of, dropping(leave)))
	return p, err
}

// apart are the plugins that look at all nodes.
func apart() []string { return []string{names.PodTopologySpread, names.InterPodAffinity} }

func dropping(list []string) func(string) bool {
	return func(name string) bool { return slices.Contains(list, name) }
}

// stripped is the profile without PostFilter and without the plugins to drop.
func stripped(profile *config.KubeSchedulerProfile, drop func(string) bool) *config.KubeSchedulerProfile {
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
