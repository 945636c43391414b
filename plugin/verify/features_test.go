package verify_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/verify/verifytest"
)

// A pod that needs a feature of the kubelet gets a node, which declares it once it has joined; one that needs what no kubelet declares by
// default does not.
func TestDeclaredFeatures(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*corev1.PodSpec)
		want   int
	}{
		"restart of all containers": {change: func(s *corev1.PodSpec) {
			s.Containers[0].RestartPolicyRules = []corev1.ContainerRestartRule{{Action: corev1.ContainerRestartRuleActionRestartAllContainers}}
		}},
		"user namespaces on the host's network": {change: func(s *corev1.PodSpec) { s.HostNetwork, s.HostUsers = true, new(bool) }, want: 1},
	} {
		class := verifytest.Class("a", 1, verifytest.Pod("a"))
		tc.change(&class.Pod.Spec)
		classes := []plan.Class{class}
		claims := verifytest.PlanOf(classes, verifytest.Claim{Name: "n1", Zone: "z1", Pods: map[int]int{0: 1}})
		got := said(check(t, verifytest.New(t), scene{classes, claims, verifytest.Zones("z1"), nil}))
		if len(got) != tc.want {
			t.Errorf("%s: rejections %q, want %d", name, got, tc.want)
		}
	}
}
