package podclass

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// AddedAffinity returns the node affinity that each profile requires of its pods (NodeAffinityArgs.addedAffinity), by the profile's name.
// What a profile only prefers is left out: it is a score for choosing among existing nodes.
func AddedAffinity(profiles []config.KubeSchedulerProfile) map[string]*corev1.NodeSelector {
	out := map[string]*corev1.NodeSelector{}
	for i := range profiles {
		for _, c := range profiles[i].PluginConfig {
			args, ok := c.Args.(*config.NodeAffinityArgs)
			if c.Name == names.NodeAffinity && ok && args.AddedAffinity != nil && args.AddedAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
				out[profiles[i].SchedulerName] = args.AddedAffinity.RequiredDuringSchedulingIgnoredDuringExecution
			}
		}
	}
	return out
}
