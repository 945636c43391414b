package verify

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
)

// Plugins that look at all nodes are asked once for the pods that they cannot tell apart, and not for others.
func TestKeysOfPods(t *testing.T) {
	app := metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
	pod := func(change ...func(*corev1.Pod)) *corev1.Pod {
		p := st.MakePod().Namespace("one").Label("app", "a").SpreadConstraint(1, "zone", corev1.DoNotSchedule, &app, nil, nil, nil, nil).Obj()
		for _, f := range change {
			f(p)
		}
		return p
	}
	label := func(p *corev1.Pod) { p.Labels["app"] = "b" }
	requests := func(p *corev1.Pod) {
		p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": {}}}}}
	}
	matches := func(p *corev1.Pod) { p.Spec.TopologySpreadConstraints[0].MatchLabelKeys = []string{"app"} }
	defaults := func(p *corev1.Pod) { p.Spec.TopologySpreadConstraints = nil }
	namespace := func(p *corev1.Pod) { p.Namespace = "two" }
	selector := func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "b"} }
	for _, c := range []struct {
		name             string
		a, b             *corev1.Pod
		spread, affinity bool
	}{
		{"requests", pod(), pod(requests), true, true},
		{"labels", pod(), pod(label), true, false},
		{"labels that a constraint names", pod(matches), pod(matches, label), false, false},
		{"labels with the profile's constraints", pod(defaults), pod(defaults, label), false, false},
		{"namespaces", pod(), pod(namespace), false, false},
		{"constraints", pod(), pod(defaults), false, true},
		{"node selectors", pod(), pod(selector), false, true},
	} {
		if got := spreadKey(c.a) == spreadKey(c.b); got != c.spread {
			t.Errorf("pods of different %s are the same to PodTopologySpread: %t, want %t", c.name, got, c.spread)
		}
		if got := affinityKey(c.a) == affinityKey(c.b); got != c.affinity {
			t.Errorf("pods of different %s are the same to InterPodAffinity: %t, want %t", c.name, got, c.affinity)
		}
	}
}
