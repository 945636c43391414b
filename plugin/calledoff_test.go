package plugin_test

import (
	"testing"

	"github.com/slipway-k8s/slipway/launcher/api"
)

// What was launched for a move that was called off is room: while it boots, and when it stands empty and is meant for the pods of others,
// the next decision has them move there, and buys no other node. What is not worth a move leaves it empty: then it is given back, as
// package reclaim's scenarios show.
func TestReplacementsOfACalledOffMove(t *testing.T) {
	h := twoHalfEmpty(t)
	h.disrupt("one")
	h.disrupt("two")
	launched := h.move("1", &api.MakeRoom{NodeNames: []string{"one", "two"}, Pods: []string{"uid-a", "uid-b"}, Bound: &api.LaunchBound{MostPerHour: 0.1}})
	if len(launched.GetNodeClaims()) != 1 || launched.GetNoRoom() != "" {
		t.Fatalf("answer %v, want one node for both pods", launched)
	}
	for _, name := range []string{"one", "two"} {
		h.updateNode(newNode(name, "3920m", bought("m7g.xlarge", "on-demand")))
		h.eventually("the taint to be seen gone", func() bool { return !h.tainted(name) })
	}
	decide := func(id string, others ...*api.FleetNode) *api.ConsolidateAnswer {
		return h.decided(&api.Question{Id: id, Kind: &api.Question_Consolidate{Consolidate: &api.Consolidate{
			Payback: 7_200_000, MinSaving: 0.005, Allowances: []*api.Allowance{{NodePool: "default", Empty: 3, Underutilized: 3}},
			Nodes: append(others, &api.FleetNode{Name: "one", Policy: "WhenEmptyOrUnderutilized"}, &api.FleetNode{Name: "two", Policy: "WhenEmptyOrUnderutilized"}),
		}}})
	}
	used := func(when string, a *api.ConsolidateAnswer) {
		t.Helper()
		going := 0
		for _, m := range a.GetMoves() {
			going += len(m.GetNodeNames())
			if len(m.GetReplacements()) > 0 {
				t.Errorf("%s another node would be bought: %v", when, m)
			}
		}
		if going != 2 {
			t.Errorf("%s %d nodes go, want both: %v", when, going, a)
		}
	}
	used("while it boots", decide("2"))
	h.createNode(newNode("new", "1930m", bought("m7g.large", "spot")))
	h.launcher.end(launched.GetNodeClaims()[0], "new", api.Outcome_OUTCOME_INITIALIZED)
	h.known("new", 0)
	meant := &api.FleetNode{Name: "new", Policy: "WhenEmptyOrUnderutilized", Blocked: "the node was launched for the pods of other nodes, which may not be bound yet"}
	used("when it stands empty", decide("3", meant))
	if n := len(h.launcher.claims()); n != 1 {
		t.Errorf("%d nodes were launched, want one", n)
	}
}
