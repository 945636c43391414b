package e2e_test

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// The Node that the launcher creates before its machine boots has what the cloud controller would give it: a pod that selects the deprecated
// keys runs on the first node.
func TestEarlyNode(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "early")
	w.pool("early", func(p *karpv1.NodePool) { onlyTypes(p, "m6i.large") })
	want := map[string]string{
		corev1.LabelFailureDomainBetaZone: "us-east-1b", corev1.LabelFailureDomainBetaRegion: "us-east-1", corev1.LabelInstanceType: "m6i.large",
		"beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux",
	}
	w.deployment("web", 1, w.podSpec("1", "1Gi", func(s *corev1.PodSpec) {
		maps.Copy(s.NodeSelector, want)
	}))
	w.awaitRunning(1)
	if n := len(w.everClaimed("early")); n != 1 {
		t.Errorf("%d NodeClaims, want 1", n)
	}
	node := w.node(w.pods()[0].Object.Spec.NodeName).Object
	for key, value := range want {
		if node.Labels[key] != value {
			t.Errorf("label %s of node %s is %q, want %q", key, node.Name, node.Labels[key], value)
		}
	}
}
