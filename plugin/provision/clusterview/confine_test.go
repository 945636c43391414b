package clusterview

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// On a node to come, a DaemonSet's anti-affinity is about its own namespace, but for one of kube-system. The template stays as it is.
func TestAntiAffinityOfDaemonsIsConfined(t *testing.T) {
	all := corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{}, NamespaceSelector: &metav1.LabelSelector{}}
	others := corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{}, Namespaces: []string{"shop"}}
	selected := corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "x"}}}
	listed := selected
	listed.Namespaces = []string{"tenant"}
	for _, c := range []struct {
		name, namespace string
		terms           []corev1.PodAffinityTerm
		want            int
		wide            bool
	}{
		{name: "a tenant's", namespace: "tenant", terms: []corev1.PodAffinityTerm{all, others}, want: 1},
		{name: "of kube-system", namespace: metav1.NamespaceSystem, terms: []corev1.PodAffinityTerm{all, others}, want: 2, wide: true},
		{name: "by the labels of namespaces", namespace: "tenant", terms: []corev1.PodAffinityTerm{selected}},
		{name: "by labels and by name", namespace: "tenant", terms: []corev1.PodAffinityTerm{selected, listed}, want: 1},
		{name: "too many", namespace: metav1.NamespaceSystem, terms: make([]corev1.PodAffinityTerm, 129)},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "agent"}}
		pod.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: c.terms}}
		got := confined(pod).PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution
		if len(got) != c.want {
			t.Errorf("%s: %d terms count, want %d", c.name, len(got), c.want)
		}
		if len(got) > 0 && (got[0].NamespaceSelector != nil) != c.wide {
			t.Errorf("%s: counts in other namespaces: %t, want %t", c.name, !c.wide, c.wide)
		}
		if len(pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) != len(c.terms) {
			t.Errorf("%s: the template was changed", c.name)
		}
	}
}
