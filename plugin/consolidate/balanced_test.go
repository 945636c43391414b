package consolidate_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/slipway-k8s/slipway/plugin/consolidate"
)

// pooled is a node of a NodePool with so many pods.
func pooled(name, pool string, policy consolidate.Policy, price float64, pods int) consolidate.Node {
	n := consolidate.Node{Name: name, Policy: policy, Used: 0.1}
	n.Offer = consolidate.Offer{NodePool: pool, InstanceType: name, CapacityType: "on-demand", Price: price}
	for i := range pods {
		n.Pods = append(n.Pods, consolidate.Pod{Name: fmt.Sprintf("%s-%d", name, i), Weight: 1})
	}
	return n
}

// A move out of a NodePool with policy Balanced is scored as Karpenter 1.14 scores it: each node counts as one disruption besides its
// evictions, nodes that may not be touched count in the NodePool's totals, and what a move over NodePools saves is shared by what
// their nodes cost.
func TestScores(t *testing.T) {
	blocked := func(n consolidate.Node) consolidate.Node {
		n.Blocked = "do-not-disrupt"
		return n
	}
	for _, tc := range []struct {
		name  string
		fleet []consolidate.Node
		// buys is what is bought for all pods that move; nothing for room on the nodes that stay.
		buys     float64
		moves    int
		scores   []consolidate.Score
		rejected []consolidate.Score
	}{
		{
			name: "half of the cost for a third of the disruption",
			fleet: []consolidate.Node{
				pooled("a", "p", consolidate.Balanced, 0.5, 1), blocked(pooled("b", "p", consolidate.Balanced, 0.5, 3)),
			},
			moves: 1, scores: []consolidate.Score{{NodePool: "p", Savings: 0.5, Disruption: 2.0 / 6}},
		},
		{
			name: "a tenth of the cost for three quarters of the disruption",
			fleet: []consolidate.Node{
				pooled("a", "p", consolidate.Balanced, 0.1, 8), blocked(pooled("b", "p", consolidate.Balanced, 0.9, 2)),
			},
			rejected: []consolidate.Score{{NodePool: "p", Savings: 0.1, Disruption: 9.0 / 12}},
		},
		{
			name:  "the new node's price is subtracted, whichever NodePool it is of",
			fleet: []consolidate.Node{pooled("a", "p", consolidate.Balanced, 1, 1)},
			buys:  0.25, moves: 1, scores: []consolidate.Score{{NodePool: "p", Savings: 0.75, Disruption: 1}},
		},
		{
			name: "savings are shared by what the nodes cost, and only NodePools with the policy are scored",
			fleet: []consolidate.Node{
				pooled("a", "p", consolidate.Balanced, 0.6, 1), pooled("b", "q", consolidate.WhenEmptyOrUnderutilized, 0.2, 1),
				pooled("c", "r", consolidate.Balanced, 0.2, 1),
			},
			buys: 0.5, moves: 1,
			scores: []consolidate.Score{{NodePool: "p", Savings: 0.5, Disruption: 1}, {NodePool: "r", Savings: 0.5, Disruption: 1}},
			// The set of the one node that wastes most was asked about, too.
			rejected: []consolidate.Score{{NodePool: "p", Savings: 0.1 / 0.6, Disruption: 1}},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ask := func(_ context.Context, gone, _ []string) (consolidate.Answer, error) {
				out := consolidate.Answer{Existing: map[string]string{}}
				var pods []string
				for i := range tc.fleet {
					for _, p := range tc.fleet[i].Pods {
						for _, name := range gone {
							if name == tc.fleet[i].Name {
								out.Existing[p.Name] = "b"
								pods = append(pods, p.Name)
							}
						}
					}
				}
				if tc.buys > 0 {
					clear(out.Existing)
					out.Replacements = []consolidate.Replacement{{
						Name: "new", Pods: pods, Offer: consolidate.Offer{NodePool: "other", InstanceType: "new", CapacityType: "on-demand", Price: tc.buys},
					}}
				}
				return out, nil
			}
			o := consolidate.DefaultOptions()
			o.Payback = 2 * time.Hour // The score is asked of moves that pay.
			d, err := consolidate.Decide(t.Context(), tc.fleet, o, ask)
			if err != nil {
				t.Fatal(err)
			}
			if len(d.Moves) != tc.moves {
				t.Fatalf("%d moves, want %d; kept %+v", len(d.Moves), tc.moves, d.Kept)
			}
			var scores []consolidate.Score
			for i := range d.Moves {
				scores = append(scores, d.Moves[i].Scores...)
			}
			near := cmpopts.EquateApprox(0, 1e-9)
			if diff := cmp.Diff(tc.scores, scores, near); diff != "" {
				t.Errorf("scores (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.rejected, d.Rejected, near); diff != "" {
				t.Errorf("rejected (-want +got):\n%s", diff)
			}
		})
	}
}

// When time runs out, what was found until then is the decision, and the nodes that were not asked about say why they stay.
func TestTimeRunsOut(t *testing.T) {
	w := &toy{fleet: []consolidate.Node{
		pooled("big", "pool", consolidate.WhenEmptyOrUnderutilized, 0.5, 1), pooled("late", "pool", consolidate.WhenEmptyOrUnderutilized, 0.01, 9),
	}}
	for _, tc := range []struct{ answers, moves int }{{0, 0}, {2, 1}} {
		asked := 0
		d, err := consolidate.Decide(t.Context(), w.fleet, consolidate.DefaultOptions(), func(_ context.Context, gone, _ []string) (consolidate.Answer, error) {
			if asked++; asked > tc.answers {
				return consolidate.Answer{}, fmt.Errorf("planning: %w", context.DeadlineExceeded)
			}
			out := consolidate.Answer{Existing: map[string]string{}, Unplaced: map[string]string{}}
			for i := range w.fleet {
				for _, p := range w.fleet[i].Pods {
					out.Existing[p.Name] = "elsewhere"
				}
			}
			if len(gone) > 1 {
				out.Unplaced = map[string]string{"late-0": "no room"}
			}
			return out, nil
		})
		if err != nil || !d.TimedOut || len(d.Moves) != tc.moves || len(d.Moves)+len(d.Kept) != len(w.fleet) {
			t.Errorf("after %d answers: %+v, %v", tc.answers, d, err)
		}
	}
}
