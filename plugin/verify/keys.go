package verify

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// keysThatMatter are the label keys of nodes by which any pod of the scene is told where it may be: what it selects, and
// the topology keys of its own rules and of those that keep others away.
func (s *scene) keysThatMatter() map[string]bool {
	out := map[string]bool{}
	for _, index := range s.order {
		class := &s.classes[index]
		podKeys(class.Pod, out)
		for _, c := range class.DefaultSpread {
			out[c.TopologyKey] = true
		}
		if len(class.Volumes) > 0 {
			for _, k := range []string{
				corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaZone,
				corev1.LabelFailureDomainBetaRegion, labelEBSZone,
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
	for _, ni := range s.nodes() {
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
