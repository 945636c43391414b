package verify

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/provision/clusterview"
)

// keysThatMatter returns the label keys of nodes that decide where pods of the classes may be: the keys that the pods select, and
// the topology keys of their own constraints and of the anti-affinity of the nodes' pods.
func keysThatMatter(classes []*plan.Class, nodes []*framework.NodeInfo) map[string]bool {
	out := map[string]bool{}
	for _, class := range classes {
		podKeys(class.Pod, out)
		for _, c := range class.DefaultSpread {
			out[c.TopologyKey] = true
		}
		if class.AddedAffinity != nil {
			for _, t := range class.AddedAffinity.NodeSelectorTerms {
				termKeys(t, out)
			}
		}
		if len(class.Volumes) > 0 {
			for _, k := range []string{
				corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaZone,
				corev1.LabelFailureDomainBetaRegion, clusterview.LabelEBSZone,
			} {
				out[k] = true
			}
			for _, v := range class.Volumes {
				for _, t := range v.Terms {
					termKeys(t, out)
				}
			}
		}
	}
	for _, ni := range nodes {
		for _, p := range ni.PodsWithRequiredAntiAffinity {
			for _, t := range p.GetRequiredAntiAffinityTerms() {
				out[t.TopologyKey] = true
			}
		}
	}
	delete(out, corev1.LabelHostname)
	return out
}

func podKeys(pod *corev1.Pod, out map[string]bool) {
	for k := range pod.Spec.NodeSelector {
		out[k] = true
	}
	for _, c := range pod.Spec.TopologySpreadConstraints {
		out[c.TopologyKey] = true
	}
	for _, t := range requiredTerms(pod) {
		out[t.TopologyKey] = true
	}
	a := pod.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return
	}
	for _, t := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		termKeys(t, out)
	}
}

func termKeys(t corev1.NodeSelectorTerm, out map[string]bool) {
	for _, e := range slices.Concat(t.MatchExpressions, t.MatchFields) {
		out[e.Key] = true
	}
}

func requiredTerms(pod *corev1.Pod) []corev1.PodAffinityTerm {
	var out []corev1.PodAffinityTerm
	if a := pod.Spec.Affinity; a != nil {
		if a.PodAffinity != nil {
			out = append(out, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
		}
		if a.PodAntiAffinity != nil {
			out = append(out, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution...)
		}
	}
	return out
}
