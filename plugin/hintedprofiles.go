package plugin

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	frameworkplugins "k8s.io/kubernetes/pkg/scheduler/framework/plugins"

	"github.com/slipway-k8s/slipway/plugin/hooks"
	"github.com/slipway-k8s/slipway/plugin/incremental/affinity"
	"github.com/slipway-k8s/slipway/plugin/incremental/spread"
	"github.com/slipway-k8s/slipway/plugin/provision/podclass"
)

// hintedProfiles returns the profiles whose equal pods are tried on the nodes that were best for one of them (hooks.Config). It leaves out profiles that say how
// many nodes are scored, and those that score by what is unknown here: extenders, plugins of others, or topology spread by default over other groups than zones.
func hintedProfiles(s Scheduler) sets.Set[string] {
	out := sets.New[string]()
	if s.PercentageOfNodesToScore != 0 || len(s.Extenders) > 0 {
		return out
	}
	known := sets.KeySet(frameworkplugins.NewInTreeRegistry()).Insert(NodeReserveName, affinity.Name, spread.Name)
	for i := range s.Profiles {
		p := &s.Profiles[i]
		built, ok := s.Scheduler.Profiles[p.SchedulerName]
		if !ok || p.PercentageOfNodesToScore != nil && *p.PercentageOfNodesToScore != 0 ||
			slices.ContainsFunc(built.ListPlugins().Score.Enabled, func(pl config.Plugin) bool { return !known.Has(pl.Name) }) ||
			!hooks.Hintable(&corev1.Pod{Spec: corev1.PodSpec{TopologySpreadConstraints: podclass.DefaultConstraints(p)}}) {
			continue
		}
		out.Insert(p.SchedulerName)
	}
	return out
}
