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
		replaced := false
		for _, set := range []*config.PluginSet{&p.MultiPoint, &p.PreFilter, &p.Filter, &p.PreScore, &p.Score} {
			replaced = replace(set) || replaced
		}
		// Kubernetes gives its plugins their default args where a configuration is read that enables them.
		if has := func(c config.PluginConfig) bool { return c.Name == interpodaffinity.Name }; replaced && !slices.ContainsFunc(out[i].PluginConfig, has) {
			args := &config.InterPodAffinityArgs{HardPodAffinityWeight: hardWeight}
			out[i].PluginConfig = append(out[i].PluginConfig, config.PluginConfig{Name: interpodaffinity.Name, Args: args})
		}
	}
	return out
}

// replace puts InterPodAffinity where this plugin is, and reports whether it was there.
func replace(set *config.PluginSet) bool {
	at := slices.IndexFunc(set.Enabled, func(e config.Plugin) bool { return e.Name == Name })
	if at < 0 {
		return false
	}
	stock := func(e config.Plugin) bool { return e.Name == interpodaffinity.Name }
	set.Disabled = slices.DeleteFunc(set.Disabled, stock)
	if slices.ContainsFunc(set.Enabled, stock) {
		set.Enabled = slices.Delete(set.Enabled, at, at+1)
		return true
	}
	set.Enabled[at].Name = interpodaffinity.Name
	return true
}
