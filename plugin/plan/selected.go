package plan

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mostSelected bounds the values of a label that divide classes: a tenant's selectors may name thousands, of other tenants' pods too. Pods with a value beyond
// it are planned as alike.
const mostSelected = 256

// identities returns the labels that only distinguish one pod of a set from its siblings.
func identities() [3]string {
	return [3]string{appsv1.StatefulSetPodNameLabel, appsv1.PodIndexLabel, batchv1.JobCompletionIndexAnnotation}
}

// isIdentity reports whether the label only distinguishes one pod of a set from its siblings.
func isIdentity(key string) bool {
	ids := identities()
	return slices.Contains(ids[:], key)
}

// Numbered reports whether the pod has a label that only distinguishes it from its siblings.
func Numbered(pod *corev1.Pod) bool {
	for _, key := range identities() {
		if _, ok := pod.Labels[key]; ok {
			return true
		}
	}
	return false
}

// Selected are the labels that only distinguish one pod of a set from its siblings, as far as affinity terms and topology spread of pods name
// them: by key, the values. Pods that have different ones of these are not alike, whatever ClassKey says. Nil for none.
type Selected map[string]map[string]bool

// Add adds what the affinity terms and topology spread constraints of the pod name.
func (s Selected) Add(pod *corev1.Pod) {
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		s.selector(c.LabelSelector)
		s.own(pod, c.MatchLabelKeys)
	}
	a := pod.Spec.Affinity
	if a == nil {
		return
	}
	if a.PodAffinity != nil {
		s.terms(pod, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		s.preferred(pod, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a.PodAntiAffinity != nil {
		s.terms(pod, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		s.preferred(pod, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
}

func (s Selected) preferred(pod *corev1.Pod, list []corev1.WeightedPodAffinityTerm) {
	for i := range list {
		s.term(pod, &list[i].PodAffinityTerm)
	}
}

func (s Selected) terms(pod *corev1.Pod, list []corev1.PodAffinityTerm) {
	for i := range list {
		s.term(pod, &list[i])
	}
}

func (s Selected) term(pod *corev1.Pod, t *corev1.PodAffinityTerm) {
	s.selector(t.LabelSelector)
	s.own(pod, t.MatchLabelKeys)
	s.own(pod, t.MismatchLabelKeys)
}

// own adds keys of which the pod's own value is selected.
func (s Selected) own(pod *corev1.Pod, keys []string) {
	for _, key := range keys {
		if value, ok := pod.Labels[key]; ok {
			s.values(key, value)
		}
	}
}

func (s Selected) selector(l *metav1.LabelSelector) {
	if l == nil {
		return
	}
	for _, key := range identities() {
		if value, ok := l.MatchLabels[key]; ok {
			s.values(key, value)
		}
	}
	for i := range l.MatchExpressions {
		s.values(l.MatchExpressions[i].Key, l.MatchExpressions[i].Values...)
	}
}

// values adds the values of an identity label; none where only its presence counts.
func (s Selected) values(key string, values ...string) {
	if !isIdentity(key) {
		return
	}
	if s[key] == nil {
		s[key] = map[string]bool{}
	}
	for _, v := range values {
		if len(s[key]) < mostSelected {
			s[key][v] = true
		}
	}
}

// Of returns what of the pod's labels is selected. It is equal for pods of one ClassKey that no selector distinguishes; empty for pods without
// such a label.
func (s Selected) Of(pod *corev1.Pod) string {
	if len(s) == 0 {
		return ""
	}
	var out strings.Builder
	for _, key := range identities() {
		values, named := s[key]
		value, has := pod.Labels[key]
		switch {
		case !named || !has:
		case values[value]:
			out.WriteString(key + "=" + value + ",")
		default: // As all whose value no selector names.
			out.WriteString(key + ",")
		}
	}
	return out.String()
}
