package plan_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/plugin/plan"
)

// Selectors tell apart the pods of a set by the values that they name, in whichever constraint.
func TestSelected(t *testing.T) {
	const name, index = "statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"
	in := func(key string, values ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: metav1.LabelSelectorOpIn, Values: values}}}
	}
	equal := func(key, value string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{key: value, "app": "db"}}
	}
	near := func(terms ...corev1.PodAffinityTerm) corev1.PodSpec {
		return corev1.PodSpec{Affinity: &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}}
	}
	apart := func(terms ...corev1.PodAffinityTerm) corev1.PodSpec {
		return corev1.PodSpec{Affinity: &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}}
	}
	rather := corev1.PodSpec{Affinity: &corev1.Affinity{
		PodAffinity:     &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{PodAffinityTerm: corev1.PodAffinityTerm{LabelSelector: in(name, "db-0")}}}},
		PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{PodAffinityTerm: corev1.PodAffinityTerm{LabelSelector: equal(name, "db-1")}}}},
	}}
	spread := func(c corev1.TopologySpreadConstraint) corev1.PodSpec {
		return corev1.PodSpec{TopologySpreadConstraints: []corev1.TopologySpreadConstraint{c}}
	}
	for what, c := range map[string]struct {
		spec corev1.PodSpec
		// groups are how many groups the pods db-0, db-1 and db-2 and a pod without these labels make.
		groups int
	}{
		"nothing":            {corev1.PodSpec{}, 1},
		"another label":      {near(corev1.PodAffinityTerm{LabelSelector: equal("tier", "db-0")}), 1},
		"a name":             {near(corev1.PodAffinityTerm{LabelSelector: equal(name, "db-1")}), 3},
		"a name of others":   {near(corev1.PodAffinityTerm{LabelSelector: equal(name, "web-1")}), 2},
		"two names":          {apart(corev1.PodAffinityTerm{LabelSelector: in(name, "db-1")}, corev1.PodAffinityTerm{LabelSelector: in(name, "db-2")}), 4},
		"preferred names":    {rather, 4},
		"its presence":       {near(corev1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: index, Operator: metav1.LabelSelectorOpExists}}}}), 2},
		"match label keys":   {near(corev1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{}, MatchLabelKeys: []string{index}}), 3},
		"mismatch":           {apart(corev1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{}, MismatchLabelKeys: []string{index}}), 3},
		"spread":             {spread(corev1.TopologySpreadConstraint{LabelSelector: equal(index, "2")}), 3},
		"keys of a spread":   {spread(corev1.TopologySpreadConstraint{MatchLabelKeys: []string{index}}), 3},
		"no selector at all": {near(corev1.PodAffinityTerm{}), 1},
	} {
		selected := plan.Selected{}
		selected.Add(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{index: "1"}}, Spec: c.spec})
		groups := map[string]bool{}
		for _, i := range []string{"0", "1", "2"} {
			groups[selected.Of(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{name: "db-" + i, index: i}}})] = true
		}
		groups[selected.Of(&corev1.Pod{})] = true
		if len(groups) != c.groups {
			t.Errorf("%s: %d groups, want %d: %v", what, len(groups), c.groups, groups)
		}
	}
}

// A tenant's selectors name as many pods of others as they like, which divide into a bounded number of classes.
func TestSelectedIsBounded(t *testing.T) {
	const name = "statefulset.kubernetes.io/pod-name"
	selected, groups := plan.Selected{}, map[string]bool{}
	for i := range 5000 {
		one := fmt.Sprintf("db-%d", i)
		selected.Add(&corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{name: one}}}},
		}}}})
	}
	for i := range 5000 {
		groups[selected.Of(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{name: fmt.Sprintf("db-%d", i)}}})] = true
	}
	if len(groups) != 257 {
		t.Errorf("%d groups, want 256 and the others", len(groups))
	}
}
