package consolidate_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
)

// balanced sets the NodePool's policy to Balanced.
func (w *world) balanced() {
	w.t.Helper()
	pool := &karpv1.NodePool{}
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Name: "default"}, pool); err != nil {
		w.t.Fatal(err)
	}
	pool.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyBalanced
	if err := w.api.Update(w.t.Context(), pool); err != nil {
		w.t.Fatal(err)
	}
}

// TestScoresAreRecorded checks that moves of a NodePool with consolidationPolicy Balanced record their score: a move of one
// node on the node, others on the NodePool.
func TestScoresAreRecorded(t *testing.T) {
	score := []*api.BalancedScore{{NodePool: "default", Savings: 0.3, Disruption: 0.2, Value: 1.5, Threshold: 0.5}}
	said := "ConsolidationApproved: score 1.50 >= threshold 0.50 (k: 2, savings 30.0%, disruption 20.0%)"
	counted := []string{"default Balanced: true", "default Balanced: true with 1.50"}
	for _, tc := range []struct {
		name     string
		balanced bool
		answer   *api.ConsolidateAnswer
		events   []string
		counted  []string
	}{
		{
			name: "of one node", balanced: true, counted: counted,
			answer: &api.ConsolidateAnswer{Moves: []*api.PlannedMove{{NodeNames: []string{"a"}, Saving: 0.3, Scores: score}}},
			events: []string{"a ConsolidationCandidate: Consolidation candidate: pods fit elsewhere, saves 0.3000 USD/h with 0 evictions", "a " + said},
		},
		{
			name: "of both nodes", balanced: true, counted: counted,
			answer: &api.ConsolidateAnswer{Moves: []*api.PlannedMove{{NodeNames: []string{"a", "b"}, Saving: 0.3, Scores: score}}},
			events: []string{
				"a ConsolidationCandidate: Consolidation candidate: pods fit elsewhere, saves 0.3000 USD/h with 0 evictions",
				"b ConsolidationCandidate: Consolidation candidate: pods fit elsewhere, saves 0.3000 USD/h with 0 evictions",
				"NodePool default " + said,
			},
		},
		{
			name:    "another policy has no score",
			answer:  &api.ConsolidateAnswer{Moves: []*api.PlannedMove{{NodeNames: []string{"a"}, Saving: 0.3}}},
			events:  []string{"a ConsolidationCandidate: Consolidation candidate: pods fit elsewhere, saves 0.3000 USD/h with 0 evictions"},
			counted: []string{"default WhenEmptyOrUnderutilized: true"},
		},
		{
			name: "too low", balanced: true,
			answer: &api.ConsolidateAnswer{
				Rejected: []*api.BalancedScore{{NodePool: "default", Savings: 0.1, Disruption: 0.4, Value: 0.25, Threshold: 0.5}, {NodePool: "gone", Savings: 1, Disruption: 1}},
				Kept:     []*api.KeptNode{{Name: "a", Reason: "its score 0.25 is below 0.50 (Balanced)"}},
			},
			events:  []string{"a Unconsolidatable: its score 0.25 is below 0.50 (Balanced)"},
			counted: []string{"default Balanced: false", "default Balanced: false with 0.25"},
		},
		{
			name: "out of time", balanced: true, answer: &api.ConsolidateAnswer{TimedOut: true}, counted: []string{"timed out: multi"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				if tc.balanced {
					w.balanced()
				}
				w.answer = tc.answer
				w.run(time.Second)
				if diff := cmp.Diff(tc.events, w.events); diff != "" {
					t.Errorf("events (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(tc.counted, w.counted); diff != "" {
					t.Errorf("metrics (-want +got):\n%s", diff)
				}
			})
		})
	}
}
