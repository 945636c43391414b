package plan

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/plugin/plan/nodematch"
	"github.com/slipway-k8s/slipway/plugin/plan/relations"
)

// preference is one soft constraint of a class.
type preference struct {
	// id is its place among all preferences.
	id, class int
	// weight as the pod gives it, 1 to 100.
	weight int32
	text   string
	// apply adds the preference to the want; a spread over hosts is asked for with several skews.
	apply func(*want)
	// host is the spread over hosts that the preference is, nil otherwise; skew is how strong this one is.
	host *softSpread
	skew int
	// over is the label of a spread; empty for other preferences.
	over string
	// near is which pods it wants to be near; nil for a preference of another kind.
	near *relations.Term
	// cost is what keeping it may cost more, in USD per hour: a guess that orders the preferences.
	cost float64
}

// spreadWeight is the weight of preferences that have none of their own.
const spreadWeight = 50

// preferences returns the soft constraints of the class, the heaviest first.
func (pc *preferenceCosts) preferences(ci int) []preference {
	pod := pc.classes[ci].pod
	var out []preference
	if a := pod.Spec.Affinity; a != nil {
		if a.NodeAffinity != nil {
			out = append(out, nodePreferences(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution)...)
		}
		if a.PodAffinity != nil {
			out = append(out, pc.affinityPreferences(pod, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)...)
		}
		if a.PodAntiAffinity != nil {
			for _, t := range a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
				out = append(out, pc.antiAffinityPreference(pod, t))
			}
		}
	}
	for _, c := range pod.Spec.TopologySpreadConstraints {
		if term, err := relations.SpreadTerm(pod, &c); err == nil && c.WhenUnsatisfiable == corev1.ScheduleAnyway {
			s := softSpread{SoftSpread: relations.SoftSpread{Term: term, MaxSkew: max(int(c.MaxSkew), 1)}}
			out = append(out, spreadPreference(s, spreadWeight, fmt.Sprintf("topology spread over %s with maxSkew %d (ScheduleAnyway)", c.TopologyKey, c.MaxSkew)))
		}
	}
	if slices.ContainsFunc(pc.market.pools, func(p pool) bool { return !nodematch.ToleratesPreferred(pod.Spec.Tolerations, p.Taints) }) {
		out = append(out, preference{weight: spreadWeight, text: "no node with a PreferNoSchedule taint", apply: func(w *want) { w.untainted = true }})
	}
	for i := range out {
		out[i].class = ci
	}
	slices.SortStableFunc(out, func(a, b preference) int { return int(b.weight - a.weight) })
	return out
}

func nodePreferences(terms []corev1.PreferredSchedulingTerm) []preference {
	var out []preference
	for _, t := range terms {
		if len(t.Preference.MatchExpressions)+len(t.Preference.MatchFields) == 0 || t.Weight <= 0 {
			continue
		}
		reqs := termRequirements([]corev1.NodeSelectorTerm{t.Preference})
		if reqs == nil {
			continue
		}
		out = append(out, preference{weight: t.Weight, text: "preferred node affinity to " + termsText(reqs), apply: func(w *want) { requireNode(w.pod, t.Preference) }})
	}
	return out
}

// requireNode adds the preference to each required term of the pod.
func requireNode(pod *corev1.Pod, p corev1.NodeSelectorTerm) {
	a := pod.Spec.Affinity.NodeAffinity
	terms := []corev1.NodeSelectorTerm{{}}
	if a.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		terms = a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	}
	out := &corev1.NodeSelector{}
	for i, t := range terms {
		if i > 0 && len(t.MatchExpressions)+len(t.MatchFields) == 0 {
			continue // It matches no node, and shall not begin to.
		}
		out.NodeSelectorTerms = append(out.NodeSelectorTerms, corev1.NodeSelectorTerm{
			MatchExpressions: slices.Concat(t.MatchExpressions, p.MatchExpressions),
			MatchFields:      slices.Concat(t.MatchFields, p.MatchFields),
		})
	}
	a.RequiredDuringSchedulingIgnoredDuringExecution = out
}

// affinityPreferences are preferred pod affinity.
func (pc *preferenceCosts) affinityPreferences(pod *corev1.Pod, terms []corev1.WeightedPodAffinityTerm) []preference {
	var out []preference
	for _, t := range terms {
		r, err := pc.relations.AffinityTerm(pod, &t.PodAffinityTerm, false)
		if err != nil {
			continue
		}
		out = append(out, preference{
			weight: t.Weight, text: fmt.Sprintf("preferred pod affinity by %s to %s", t.PodAffinityTerm.TopologyKey, metav1.FormatLabelSelector(t.PodAffinityTerm.LabelSelector)),
			near: &r,
			apply: func(w *want) {
				a := w.pod.Spec.Affinity.PodAffinity
				a.RequiredDuringSchedulingIgnoredDuringExecution = append(a.RequiredDuringSchedulingIgnoredDuringExecution, t.PodAffinityTerm)
			},
		})
	}
	return out
}

// antiAffinityPreference is preferred pod anti-affinity: to pods of its own kind it is a spread, since those cannot all be kept
// apart but can be even; to others it is kept or not.
func (pc *preferenceCosts) antiAffinityPreference(pod *corev1.Pod, t corev1.WeightedPodAffinityTerm) preference {
	text := fmt.Sprintf("preferred pod anti-affinity by %s to %s", t.PodAffinityTerm.TopologyKey, metav1.FormatLabelSelector(t.PodAffinityTerm.LabelSelector))
	if r, err := pc.relations.AffinityTerm(pod, &t.PodAffinityTerm, false); err == nil && r.Matches(pod) {
		return spreadPreference(softSpread{SoftSpread: relations.SoftSpread{Term: r, MaxSkew: 1}}, t.Weight, text)
	}
	return preference{weight: t.Weight, text: text, apply: func(w *want) {
		a := w.pod.Spec.Affinity.PodAntiAffinity
		a.RequiredDuringSchedulingIgnoredDuringExecution = append(a.RequiredDuringSchedulingIgnoredDuringExecution, t.PodAffinityTerm)
	}}
}

func spreadPreference(s softSpread, weight int32, text string) preference {
	w := preference{weight: weight, text: text, over: s.Key(), apply: func(w *want) { w.spread = append(w.spread, s) }}
	if isHost(s.Key()) {
		w.host = &s
	}
	return w
}
