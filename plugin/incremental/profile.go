// Package incremental has kube-scheduler's plugins whose answers are computed of all pods of all nodes, with a memory: most pods are like the one before, and
// between two of them few pods come onto nodes or leave them.
package incremental

import (
	"fmt"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/slipway-k8s/slipway/plugin/incremental/affinity"
	"github.com/slipway-k8s/slipway/plugin/incremental/spread"
)

// Plugins returns the factories of the plugins by name. tripped is called when one of them stops to remember for a while, with its name and the cause.
func Plugins(tripped func(name string, cause any)) frameworkruntime.Registry {
	return frameworkruntime.Registry{affinity.Name: affinity.New(tripped), spread.Name: spread.New(tripped)}
}

// stock is the plugin of Kubernetes that gives the same answers as one of this package.
type stock struct {
	name string
	// args are its defaults, which Kubernetes gives to plugins where a configuration is read that enables them.
	args runtime.Object
}

// stocks are those by the names of the plugins of this package.
func stocks() map[string]stock {
	return map[string]stock{
		affinity.Name: {names.InterPodAffinity, &config.InterPodAffinityArgs{HardPodAffinityWeight: affinity.HardWeight}},
		spread.Name:   {names.PodTopologySpread, &config.PodTopologySpreadArgs{DefaultingType: config.SystemDefaulting}},
	}
}

// Validate returns an error for a profile that has args of a plugin of Kubernetes and, in its place, one of this package, on which they would have no effect.
func Validate(profiles []config.KubeSchedulerProfile) error {
	for i := range profiles {
		p := &profiles[i]
		if p.Plugins == nil {
			continue
		}
		for ours, theirs := range stocks() {
			named := func(e config.Plugin) bool { return e.Name == ours }
			if !slices.ContainsFunc(sets(p.Plugins), func(set *config.PluginSet) bool { return slices.ContainsFunc(set.Enabled, named) }) {
				continue
			}
			at := slices.IndexFunc(p.PluginConfig, func(c config.PluginConfig) bool { return c.Name == theirs.name })
			if at >= 0 && !reflect.DeepEqual(p.PluginConfig[at].Args, theirs.args) {
				return fmt.Errorf("profile %s: the args of %s have no effect beside %s: expected none, or %s disabled and %s enabled",
					p.SchedulerName, theirs.name, ours, ours, theirs.name)
			}
		}
	}
	return nil
}

// Stock returns the profiles with Kubernetes' plugins where they have those of this package: what asks about nodes that do not exist yet counts pods by class
// itself, and knows Kubernetes' plugins by their names.
func Stock(profiles []config.KubeSchedulerProfile) []config.KubeSchedulerProfile {
	out := make([]config.KubeSchedulerProfile, len(profiles))
	for i := range profiles {
		out[i] = *profiles[i].DeepCopy()
		p := out[i].Plugins
		if p == nil {
			continue
		}
		for ours, theirs := range stocks() {
			replaced := false
			for _, set := range sets(p) {
				replaced = replace(set, ours, theirs.name) || replaced
			}
			if has := func(c config.PluginConfig) bool { return c.Name == theirs.name }; replaced && !slices.ContainsFunc(out[i].PluginConfig, has) {
				out[i].PluginConfig = append(out[i].PluginConfig, config.PluginConfig{Name: theirs.name, Args: theirs.args})
			}
		}
	}
	return out
}

// sets returns those of the extension points that the plugins have.
func sets(p *config.Plugins) []*config.PluginSet {
	return []*config.PluginSet{&p.MultiPoint, &p.PreFilter, &p.Filter, &p.PreScore, &p.Score}
}

// replace puts one plugin where the other is, and reports whether that was there.
func replace(set *config.PluginSet, ours, theirs string) bool {
	at := slices.IndexFunc(set.Enabled, func(e config.Plugin) bool { return e.Name == ours })
	if at < 0 {
		return false
	}
	stock := func(e config.Plugin) bool { return e.Name == theirs }
	set.Disabled = slices.DeleteFunc(set.Disabled, stock)
	if slices.ContainsFunc(set.Enabled, stock) {
		set.Enabled = slices.Delete(set.Enabled, at, at+1)
		return true
	}
	set.Enabled[at].Name = theirs
	return true
}
