package disruption_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
)

// selectsWeb reports whether budgets hold a pod with the label app=web.
func selectsWeb(budgets disruption.PodBudgets) bool {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "web", Labels: map[string]string{"app": "web"},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Controller: new(true)}},
	}}
	pod.Status.Phase = corev1.PodRunning
	return disruption.BlockOf(disruption.Candidate{Now: monday(), Node: &corev1.Node{}, Claim: &karpv1.NodeClaim{}, Pods: []*corev1.Pod{pod}}, budgets).Why != ""
}

// budgetOf is a budget that allows no eviction of the pods of an app.
func budgetOf(uid types.UID, generation int64, app string) []policyv1.PodDisruptionBudget {
	b := policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "one", UID: uid, Generation: generation}}
	b.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
	return []policyv1.PodDisruptionBudget{b}
}

// A selector is parsed once in each generation of its budget, however often that is read, and forgotten once a look has not read it. The budgets
// here change as those of an API server do not, within a generation: so it shows which selector is remembered.
func TestSelectorsAreParsedOncePerGeneration(t *testing.T) {
	selectors := &disruption.Selectors{}
	for _, step := range []struct {
		what   string
		looks  int
		budget []policyv1.PodDisruptionBudget
		want   bool
	}{
		{"the first read", 1, budgetOf("a", 1, "web"), true},
		{"the same generation, in the same look", 0, budgetOf("a", 1, "db"), true},
		{"the same generation, in the next look", 1, budgetOf("a", 1, "db"), true},
		{"another budget of the name", 0, budgetOf("b", 1, "db"), false},
		{"the next generation", 1, budgetOf("a", 2, "db"), false},
		{"the generation before, as a cache that is late has it", 0, budgetOf("a", 1, "web"), true},
		{"after a look that has not read it", 2, budgetOf("a", 1, "db"), false},
		{"from a file", 0, budgetOf("", 0, "web"), true},
		{"another one from a file", 0, budgetOf("", 0, "db"), false},
	} {
		for range step.looks {
			selectors.Look()
		}
		if got := selectsWeb(selectors.Read(step.budget)); got != step.want {
			t.Errorf("%s: selects the pod is %t", step.what, got)
		}
	}
}
