package disruption_test

import (
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/slipway-k8s/slipway/internal/disruption"
)

// scene is the content of a scenario. By default pods run in the namespace default, and a ReplicaSet controls them.
type scene struct {
	Node    corev1.Node
	Claim   karpv1.NodeClaim
	Pods    []*corev1.Pod
	Budgets []policyv1.PodDisruptionBudget
}

// TestBlockOf runs testdata/block/*.txt: a node in YAML at noon of 2026-01-05, and what blocks it.
func TestBlockOf(t *testing.T) {
	noon := time.Date(2026, 1, 5, 12, 0, 0, 0, time.UTC)
	datadriven.Walk(t, "testdata/block", func(t *testing.T, path string) {
		t.Helper()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			t.Helper()
			var s scene
			if err := yaml.UnmarshalStrict([]byte(d.Input), &s); err != nil {
				d.Fatalf(t, "%v", err)
			}
			for _, pod := range s.Pods {
				pod.Namespace = "default"
				if pod.Annotations["bare"] == "" {
					pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Controller: new(true)}}
				}
				if pod.Status.Phase == "" {
					pod.Status.Phase = corev1.PodRunning
				}
			}
			for i := range s.Budgets {
				if s.Budgets[i].Namespace == "" {
					s.Budgets[i].Namespace = "default"
				}
			}
			candidate := disruption.Candidate{Now: noon, Node: &s.Node, Claim: &s.Claim, Pods: s.Pods, DisruptBare: d.HasArg("disrupt-bare")}
			got := disruption.BlockOf(candidate, disruption.ReadPodBudgets(s.Budgets))
			switch {
			case got.Why == "":
				return "may go\n"
			case got.ByPods:
				return "pods: " + got.Why + "\n"
			}
			return got.Why + "\n"
		})
	})
}
