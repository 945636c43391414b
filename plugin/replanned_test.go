package plugin_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// A pod that runs only beside another, which does not exist, is planned again once that one has a node. Nodes that exist have no room for it, and reject it for that
// alone.
func TestAPodIsPlannedAgainWhenTheOneItFollowsComes(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("small", "100m", nil)}})
	h.pod("follows", func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
			TopologyKey: corev1.LabelTopologyZone, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "leads"}},
		}}}}
	})
	h.eventually("the pod's condition", func() bool { return h.says("follows", "Insufficient cpu", "No node can be launched") })
	h.asks("leads", 50, func(p *corev1.Pod) { p.Labels = map[string]string{"app": "leads"} })
	h.eventually("the other pod to be bound", func() bool { return h.nodeOf("leads") == "small" })
	h.eventually("a launch", func() bool { return h.launcher.podNames()["follows"] == 1 })
	if zone := h.launcher.claims()[0].GetExpected().GetZone(); zone != "us-east-1a" {
		t.Errorf("launched in %s, the other pod is in us-east-1a", zone)
	}
}
