package consolidate_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/budget"
	"github.com/slipway-k8s/slipway/launcher/consolidate"
	"github.com/slipway-k8s/slipway/launcher/view"
)

// TestOutlook checks that the last decision can be read: its moves with their savings and what became of them, and why the other nodes stay. A
// move that deletes its nodes is reported as decided, one that the budgets refuse is not.
func TestOutlook(t *testing.T) {
	const message = "replaced by m7g.large spot (0.0358 USD/h: instance 0.0336 + volumes 0.0022), saves 0.3000 USD/h with 2 evictions"
	for name, c := range map[string]struct {
		answer  *api.ConsolidateAnswer
		refuse  error
		decided []string
		want    view.Consolidation
	}{
		"begun": {
			answer: both(), decided: []string{"2 nodes, 0.3000 USD/h, 2 evictions: " + message},
			want: view.Consolidation{
				Moves: []view.Move{{Nodes: []string{"a", "b"}, Replacements: []string{"m7g.large spot"}, Saving: 0.3, Evictions: 2, Begun: true}}, Stays: []view.Stay{},
			},
		},
		"refused": {
			answer: both(), refuse: &budget.RefusedError{NodePool: "default", Reason: karpv1.DisruptionReasonUnderutilized, Why: "blocking budget"},
			want: view.Consolidation{
				Moves: []view.Move{{
					Nodes: []string{"a", "b"}, Replacements: []string{"m7g.large spot"}, Saving: 0.3, Evictions: 2,
					Waits: "No allowed disruptions for disruption reason Underutilized due to blocking budget",
				}}, Stays: []view.Stay{},
			},
		},
		"kept": {
			answer: &api.ConsolidateAnswer{Kept: []*api.KeptNode{{Name: "b", Reason: "it is cheap"}, {Name: "a", Reason: "pod web/x would not fit elsewhere"}}},
			want: view.Consolidation{
				Moves: []view.Move{}, Stays: []view.Stay{{Node: "a", Why: "pod web/x would not fit elsewhere"}, {Node: "b", Why: "it is cheap"}},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.answer, w.refuse = c.answer, c.refuse
				w.run(5 * time.Second) // One decision.
				if diff := cmp.Diff(c.want, w.outlook, cmpopts.IgnoreFields(view.Consolidation{}, "At")); diff != "" || w.outlook.At.IsZero() {
					t.Errorf("outlook at %s (-want +got):\n%s", w.outlook.At, diff)
				}
				if !slices.Equal(w.decided, c.decided) {
					t.Errorf("decided %q, want %q", w.decided, c.decided)
				}
			})
		})
	}
}

// TestOutlookWhileAnotherLeads checks that nothing is shown of what this process decided once another one decides.
func TestOutlookWhileAnotherLeads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, began := newWorld(t), time.Now()
		w.answer = both()
		w.another = func() bool { return time.Since(began) > 15*time.Second }
		w.run(time.Minute)
		if len(w.moves) != 1 || len(w.outlook.Moves) != 0 || !w.outlook.At.IsZero() {
			t.Errorf("%d moves, shown as %+v", len(w.moves), w.outlook)
		}
	})
}

// TestOutlookBefore checks that there is an empty list, which JSON has as such, before anything is decided.
func TestOutlookBefore(t *testing.T) {
	if got := (&consolidate.Consolidator{}).Outlook(); got.Moves == nil || got.Stays == nil || !got.At.IsZero() {
		t.Errorf("got %+v", got)
	}
}
