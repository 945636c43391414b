package plan

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// mostSelected bounds the values of a label that divide the pods of one namespace into classes, for selectors of each origin apart: a tenant's may name
	// thousands, of other tenants' pods too. Pods with a value beyond it are planned as alike.
	mostSelected = 256
	// mostForeign bounds the namespaces that terms of pods in others name.
	mostForeign = 1024
)

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
// them. Pods that have different ones of these are not alike, whatever ClassKey says. What pods of one namespace name divides no pods of another, unless a
// term names that namespace or selects namespaces. The zero value has none; nil is the same, and nothing can be added to it.
type Selected struct {
	// own are what the pods of a namespace name among themselves, foreign what pods of others name there, by namespace.
	own, foreign map[string]selectedValues
	// anywhere is what terms name that select namespaces.
	anywhere selectedValues
}

// selectedValues are the values of labels that are named, by the label's key. A key without values is one of which only the presence counts.
type selectedValues map[string]map[string]bool

// Add adds what the affinity terms and topology spread constraints of a pod name that is to be planned.
func (s *Selected) Add(pod *corev1.Pod) {
	for i := range pod.Spec.TopologySpreadConstraints {
		c := &pod.Spec.TopologySpreadConstraints[i]
		s.add(pod, []string{pod.Namespace}, false, c.LabelSelector, c.MatchLabelKeys)
	}
	s.AddRepelled(pod)
	a := pod.Spec.Affinity
	if a == nil {
		return
	}
	if a.PodAffinity != nil {
		s.terms(pod, a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
		s.preferred(pod, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a.PodAntiAffinity != nil {
		s.preferred(pod, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
}

// AddRepelled adds what the required anti-affinity of the pod names. It is all that counts of a pod that has a node.
func (s *Selected) AddRepelled(pod *corev1.Pod) {
	if a := pod.Spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		s.terms(pod, a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution)
	}
}

func (s *Selected) preferred(pod *corev1.Pod, list []corev1.WeightedPodAffinityTerm) {
	for i := range list {
		s.term(pod, &list[i].PodAffinityTerm)
	}
}

func (s *Selected) terms(pod *corev1.Pod, list []corev1.PodAffinityTerm) {
	for i := range list {
		s.term(pod, &list[i])
	}
}

func (s *Selected) term(pod *corev1.Pod, t *corev1.PodAffinityTerm) {
	namespaces := t.Namespaces
	if len(namespaces) == 0 && t.NamespaceSelector == nil {
		namespaces = []string{pod.Namespace}
	}
	s.add(pod, namespaces, t.NamespaceSelector != nil, t.LabelSelector, slices.Concat(t.MatchLabelKeys, t.MismatchLabelKeys))
}

// add adds what a selector names, and the pod's own values of the keys, in the namespaces, or anywhere.
func (s *Selected) add(pod *corev1.Pod, namespaces []string, anywhere bool, l *metav1.LabelSelector, keys []string) {
	names := named(pod, l, keys)
	if len(names) == 0 {
		return
	}
	if anywhere {
		s.anywhere = s.anywhere.with(names)
	}
	for _, namespace := range namespaces {
		switch _, known := s.foreign[namespace]; {
		case namespace == pod.Namespace:
			s.own = namedIn(s.own, namespace, names)
		case known || len(s.foreign) < mostForeign:
			s.foreign = namedIn(s.foreign, namespace, names)
		}
	}
}

// namedIn returns the values by namespace with those of the names in one of them.
func namedIn(of map[string]selectedValues, namespace string, names map[string][]string) map[string]selectedValues {
	if of == nil {
		of = map[string]selectedValues{}
	}
	of[namespace] = of[namespace].with(names)
	return of
}

// named returns the values of identity labels that a selector names, and the pod's own ones of the keys.
func named(pod *corev1.Pod, l *metav1.LabelSelector, keys []string) map[string][]string {
	out := map[string][]string{}
	name := func(key string, values ...string) {
		if isIdentity(key) {
			out[key] = append(out[key], values...)
		}
	}
	for _, key := range keys {
		if value, ok := pod.Labels[key]; ok {
			name(key, value)
		}
	}
	if l == nil {
		return out
	}
	for _, key := range identities() {
		if value, ok := l.MatchLabels[key]; ok {
			name(key, value)
		}
	}
	for i := range l.MatchExpressions {
		name(l.MatchExpressions[i].Key, l.MatchExpressions[i].Values...)
	}
	return out
}

// with returns the values with those of the names, as far as the bound allows.
func (v selectedValues) with(names map[string][]string) selectedValues {
	if v == nil {
		v = selectedValues{}
	}
	for key, values := range names {
		if v[key] == nil {
			v[key] = map[string]bool{}
		}
		for _, value := range values {
			if len(v[key]) < mostSelected {
				v[key][value] = true
			}
		}
	}
	return v
}

// Of returns what of the pod's labels is selected. It is equal for pods of one ClassKey that no selector distinguishes; empty for pods without
// such a label.
func (s *Selected) Of(pod *corev1.Pod) string {
	if s == nil {
		return ""
	}
	of := [3]selectedValues{s.own[pod.Namespace], s.foreign[pod.Namespace], s.anywhere}
	var out strings.Builder
	for _, key := range identities() {
		value, has := pod.Labels[key]
		if !has {
			continue
		}
		switch {
		case slices.ContainsFunc(of[:], func(v selectedValues) bool { return v[key][value] }):
			out.WriteString(key + "=" + value + ",")
		case slices.ContainsFunc(of[:], func(v selectedValues) bool { return v[key] != nil }): // As all whose value no selector names.
			out.WriteString(key + ",")
		}
	}
	return out.String()
}
