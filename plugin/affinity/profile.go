package affinity

import (
	"slices"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/interpodaffinity"
)

// Stock returns the profiles with InterPodAffinity where they have this plugin: what asks about nodes that do not exist yet counts pods by class
// itself, and knows Kubernetes' plugins by their names.
func Stock(profiles []config.KubeSchedulerProfile) []config.KubeSchedulerProfile {
	out := make([]config.KubeSchedulerProfile, len(profiles))
	for i := range profiles {
		out[i] = *profiles[i].DeepCopy()
		p := out[i].Plugins
		if p == nil {
			continue
		}
		for _, set := range []*config.PluginSet{&p.MultiPoint, &p.PreFilter, &p.Filter, &p.PreScore, &p.Score} {
			replace(set)
		}
	}
	return out
}

func replace(set *config.PluginSet) {
	at := slices.IndexFunc(set.Enabled, func(e config.Plugin) bool { return e.Name == Name })
	if at < 0 {
		return
	}
	stock := func(e config.Plugin) bool { return e.Name == interpodaffinity.Name }
	set.Disabled = slices.DeleteFunc(set.Disabled, stock)
	if slices.ContainsFunc(set.Enabled, stock) {
		set.Enabled = slices.Delete(set.Enabled, at, at+1)
		return
	}
	set.Enabled[at].Name = interpodaffinity.Name
}
