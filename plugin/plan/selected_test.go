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

// naming returns a pod of the namespace that names the values of the label, in the pods that the term adds to.
func naming(namespace, key string, term corev1.PodAffinityTerm, values ...string) *corev1.Pod {
	term.LabelSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: metav1.LabelSelectorOpIn, Values: values}}}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace},
		Spec:       corev1.PodSpec{Affinity: &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{term}}}},
	}
}

// groupsOf returns into how many groups the pods of a set in the namespace fall, which the label numbers from 0.
func groupsOf(s *plan.Selected, namespace, key string, pods int) int {
	groups := map[string]bool{}
	for i := range pods {
		groups[s.Of(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: map[string]string{key: fmt.Sprint(i)}}})] = true
	}
	return len(groups)
}

// Names that a tenant's selectors make up leave those of another their own bound, wherever the tenant's terms point.
func TestSelectedNamesOfOthers(t *testing.T) {
	const name = "statefulset.kubernetes.io/pod-name"
	made := make([]string, 1000)
	for i := range made {
		made[i] = fmt.Sprintf("made-up-%d", i)
	}
	for what, term := range map[string]corev1.PodAffinityTerm{
		"its own namespace":  {},
		"one that it names":  {Namespaces: []string{"b"}},
		"all":                {NamespaceSelector: &metav1.LabelSelector{}},
		"ones that it makes": {Namespaces: made},
	} {
		selected := plan.Selected{}
		selected.Add(naming("a", name, term, made...))
		selected.Add(naming("b", name, corev1.PodAffinityTerm{}, "1"))
		if n := groupsOf(&selected, "b", name, 3); n != 2 {
			t.Errorf("%s: %d groups of b's pods, want that which b names and the others", what, n)
		}
	}
}

// The pods of every set have the same numbers: those that a tenant's selectors name divide the sets of others only where the selectors look at these.
func TestSelectedNumbersOfOthers(t *testing.T) {
	const index = "batch.kubernetes.io/job-completion-index"
	for what, c := range map[string]struct {
		term corev1.PodAffinityTerm
		want map[string]int
	}{
		"its own namespace":  {corev1.PodAffinityTerm{}, map[string]int{"a": 256, "b": 1, "c": 1}},
		"one that it names":  {corev1.PodAffinityTerm{Namespaces: []string{"b"}}, map[string]int{"a": 1, "b": 256, "c": 1}},
		"ones that it picks": {corev1.PodAffinityTerm{NamespaceSelector: &metav1.LabelSelector{}}, map[string]int{"a": 256, "b": 256, "c": 256}},
	} {
		selected := plan.Selected{}
		for i := range 256 {
			pod := naming("a", "app", c.term, "job")
			pod.Labels = map[string]string{index: fmt.Sprint(i)}
			pod.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].MatchLabelKeys = []string{index}
			pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{LabelSelector: &metav1.LabelSelector{}}}
			selected.Add(pod)
		}
		for namespace, want := range c.want {
			if n := groupsOf(&selected, namespace, index, 256); n != want {
				t.Errorf("%s: %d groups of pods in %s, want %d", what, n, namespace, want)
			}
		}
	}
}

// Of a pod on a node the required anti-affinity alone counts.
func TestSelectedByPodsOnNodes(t *testing.T) {
	const index = "apps.kubernetes.io/pod-index"
	pod := naming("a", index, corev1.PodAffinityTerm{}, "1")
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{index: "2"}}}}
	near := pod.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	pod.Spec.Affinity.PodAntiAffinity = &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{PodAffinityTerm: near[0]}}}
	selected := plan.Selected{}
	if selected.AddRepelled(pod); groupsOf(&selected, "a", index, 3) != 1 {
		t.Error("affinity, preferences or the spread of a pod on a node divide a set")
	}
	pod.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution = near
	if selected.AddRepelled(pod); groupsOf(&selected, "a", index, 3) != 2 {
		t.Error("required anti-affinity of a pod on a node does not count")
	}
}
