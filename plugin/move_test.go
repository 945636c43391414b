package plugin_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-k8s/slipway/launcher/api"
)

// bought is a node of NodePool default as it was launched.
func bought(instanceType, capacityType string) map[string]string {
	return map[string]string{
		"karpenter.sh/nodepool": "default", "karpenter.sh/capacity-type": capacityType, "node.kubernetes.io/instance-type": instanceType,
		"kubernetes.io/arch": "arm64",
	}
}

// move asks for room for the pods of a move.
func (h *harness) move(id string, q *api.MakeRoom) *api.MakeRoomAnswer {
	h.t.Helper()
	q.Purpose = api.Purpose_PURPOSE_MOVE
	return h.ask(&api.Question{Id: id, Kind: &api.Question_MakeRoom{MakeRoom: q}}).GetMakeRoom()
}

func (h *harness) launchedNothing() {
	h.t.Helper()
	if n := len(h.launcher.requests()); n != 0 {
		h.t.Fatalf("%d launches: neither deciding nor refusing launches anything", n)
	}
}

// launchedFor checks the purpose of the first launch, and the nodes that its first claim replaces.
func (h *harness) launchedFor(purpose api.Purpose, nodes ...string) {
	h.t.Helper()
	first := h.launcher.requests()[0]
	if got := first.GetClaims()[0].GetReplaces(); first.GetPurpose() != purpose || !slices.Equal(got, nodes) {
		h.t.Errorf("launched for %s, replacing %v; want %s, %v", first.GetPurpose(), got, purpose, nodes)
	}
}

// twoHalfEmpty are two nodes of 0.16 USD per hour with a pod of 600m each.
func twoHalfEmpty(t *testing.T) *harness {
	t.Helper()
	h := start(t, harnessOptions{objects: []runtime.Object{
		newNode("one", "3920m", bought("m7g.xlarge", "on-demand")), newNode("two", "3920m", bought("m7g.xlarge", "on-demand")),
		replicaSet("web", 2),
	}})
	h.on("one", "a")
	h.on("two", "b")
	h.known("one", 1)
	h.known("two", 1)
	return h
}

// disrupt taints one of them, as nodes are that go.
func (h *harness) disrupt(node string) {
	h.t.Helper()
	h.updateNode(newNode(node, "3920m", bought("m7g.xlarge", "on-demand"), disrupted()))
	h.eventually("the taint to be seen", func() bool { return h.tainted(node) })
}

// consolidate asks what of one and two to give up.
func (h *harness) consolidate(id, blocked string, allowed int32) *api.ConsolidateAnswer {
	h.t.Helper()
	return h.decided(&api.Question{Id: id, Kind: &api.Question_Consolidate{Consolidate: &api.Consolidate{
		Payback: 7_200_000, MinSaving: 0.005,
		Allowances: []*api.Allowance{{NodePool: "default", Empty: allowed, Underutilized: allowed}},
		Nodes: []*api.FleetNode{
			{Name: "one", Policy: "WhenEmptyOrUnderutilized"}, {Name: "two", Policy: "WhenEmptyOrUnderutilized", Blocked: blocked},
		},
	}}})
}

// decided asks until consolidation does not rest after the decision before, which takes long on a busy machine.
func (h *harness) decided(q *api.Question) (answer *api.ConsolidateAnswer) {
	h.t.Helper()
	h.eventually("a decision", func() bool {
		answer = h.ask(q).GetConsolidate()
		return !strings.Contains(answer.GetMessage(), "took much planning")
	})
	return answer
}

func onlyMove(t *testing.T, a *api.ConsolidateAnswer) *api.PlannedMove {
	t.Helper()
	if len(a.GetMoves()) != 1 {
		t.Fatalf("%d moves, want one: %v", len(a.GetMoves()), a)
	}
	return a.GetMoves()[0]
}

// The scheduler says which nodes are worth giving up, launches nothing by that, and leaves alone what may not be touched.
func TestConsolidate(t *testing.T) {
	h := twoHalfEmpty(t)
	both := h.consolidate("1", "", 2)
	m := onlyMove(t, both)
	if len(m.GetNodeNames()) != 2 || both.GetMessage() != "" {
		t.Fatalf("both nodes may go: %v", both)
	}
	// Two pods of 600m run on one m7g.large spot, 0.028 USD per hour.
	if m.GetSaving() < 0.29 || m.GetEvictions() != 2 || m.GetMostPerHour() < 0.028 || m.GetMostPerHour() > 0.32-0.005 {
		t.Errorf("move %v", m)
	}
	// The pod of one finds room on two, which stays.
	one := h.consolidate("2", "do-not-disrupt", 2)
	if m := onlyMove(t, one); strings.Join(m.GetNodeNames(), " ") != "one" || len(m.GetReplacements()) != 0 {
		t.Errorf("one node may go, and its pod has room on the other: %v", one)
	}
	if len(one.GetKept()) != 1 || one.GetKept()[0].GetReason() != "do-not-disrupt" {
		t.Errorf("kept %v", one.GetKept())
	}
	if none := h.consolidate("3", "", 0); len(none.GetMoves()) != 0 || len(none.GetKept()) != 2 {
		t.Errorf("the budgets let none go: %v", none)
	}
	h.launchedNothing()
}

// What the launcher has seen of a NodePool and has not reached the scheduler is not decided about: its nodes would go for less
// than what may come for them now.
func TestConsolidateKnowsTheNodePools(t *testing.T) {
	h := twoHalfEmpty(t)
	q := &api.Consolidate{
		Payback: 7_200_000, MinSaving: 0.005, Nodes: []*api.FleetNode{{Name: "one", Policy: "WhenEmptyOrUnderutilized"}, {Name: "two", Policy: "WhenEmptyOrUnderutilized"}},
		Allowances: []*api.Allowance{{NodePool: "default", Empty: 2, Underutilized: 2, Generation: 2}, {NodePool: "unknown", Generation: 7}},
	}
	ask := func(id string) *api.ConsolidateAnswer {
		return h.ask(&api.Question{Id: id, Kind: &api.Question_Consolidate{Consolidate: q}}).GetConsolidate()
	}
	if a := ask("1"); a.GetMessage() != "NodePool default is not known yet as it is now" || len(a.GetMoves()) != 0 {
		t.Errorf("answer %v, the scheduler knows generation 0 of NodePool default", a)
	}
	newer := pool("default")
	newer.Generation = 2
	h.launcher.mu.Lock()
	h.launcher.publish(func() *api.CatalogUpdate { return &api.CatalogUpdate{NodePools: []*api.NodePool{newer}} })
	h.launcher.mu.Unlock()
	n := 1
	h.eventually("a decision, once the NodePool is known", func() bool {
		n++
		a := ask(fmt.Sprint(n))
		return a.GetMessage() == "" && len(onlyMove(t, a).GetNodeNames()) == 2
	})
}

// Room for the pods of two nodes that go is planned at once, within the bound, and launched once.
func TestMove(t *testing.T) {
	h := twoHalfEmpty(t)
	h.disrupt("one")
	h.disrupt("two")
	m := &api.MakeRoom{NodeNames: []string{"one", "two"}, Reason: "underutilized", Pods: []string{"uid-a", "uid-b"}, Bound: &api.LaunchBound{MostPerHour: 0.02}}
	if a := h.move("1", m); !strings.Contains(a.GetNoRoom(), "costs 0.0280 USD/h") || len(a.GetNodeClaims()) != 0 {
		t.Errorf("answer %v: nothing is to be had for 0.02 USD per hour", a)
	}
	h.launchedNothing()
	m.Bound.MostPerHour = 0.1
	first := h.move("2", m)
	claims := h.launcher.claims()
	if len(first.GetNodeClaims()) != 1 || first.GetNoRoom() != "" || len(claims) != 1 || len(claims[0].GetPods()) != 2 {
		t.Fatalf("answer %v, launched %v", first, claims)
	}
	h.launchedFor(api.Purpose_PURPOSE_MOVE, "one", "two")
	// m7g.4xlarge would cost more than the bound, and m7g.xlarge spot 0.056.
	if slices.Contains(claims[0].GetInstanceTypes(), "m7g.4xlarge") {
		t.Errorf("m7g.4xlarge may be launched, which costs more than the move may: %v", claims[0])
	}
	if again := h.move("3", m); len(again.GetNodeClaims()) != 1 || again.GetNoRoom() != "" || again.GetPerHour() != 0 || len(h.launcher.claims()) != 1 {
		t.Errorf("asked again, the answer is %v and there are %d claims", again, len(h.launcher.claims()))
	}
	// What terminate asks when the nodes go finds the room that is kept.
	if g := h.going("one", "uid-a"); len(g.GetNodeClaims()) != 1 || len(h.launcher.claims()) != 1 {
		t.Errorf("the node goes: %v, and there are %d claims", g, len(h.launcher.claims()))
	}
}

// A NodePool at its limit replaces its nodes: one that terminates does not count beside its replacement. It counts for pods that have no node, and once
// its replacement exists there is no room for another.
func TestMoveAtTheLimit(t *testing.T) {
	full := func(l *testLauncher) {
		l.pools[0].Limits, l.pools[0].Usage = map[string]string{"cpu": "3920m"}, map[string]string{"cpu": "3920m", "nodes": "1"}
	}
	h := start(t, harnessOptions{prepare: full, objects: []runtime.Object{
		newNode("one", "3920m", bought("m7g.xlarge", "on-demand"), disrupted()), replicaSet("web", 1),
	}})
	h.on("one", "a")
	h.known("one", 1)
	h.pod("more", nil)
	h.eventually("the limit to be named", func() bool { return h.says("more", "limit cpu of 3.92 reached") })
	h.launchedNothing()
	m := &api.MakeRoom{NodeNames: []string{"one"}, Reason: "drifted", Pods: []string{"uid-a"}}
	if a := h.move("1", m); a.GetNoRoom() != "" || len(a.GetNodeClaims()) != 1 {
		t.Fatalf("answer %v: want a replacement", a)
	}
	h.launchedFor(api.Purpose_PURPOSE_MOVE, "one")
}

// Two nodes terminate of a NodePool that has two more nodes than its limit: their replacements exist, and there is room for none.
func TestMoveBeyondTheLimit(t *testing.T) {
	over := func(l *testLauncher) {
		l.pools[0].Limits, l.pools[0].Usage = map[string]string{"cpu": "7840m"}, map[string]string{"cpu": "15680m", "nodes": "4"}
	}
	h := start(t, harnessOptions{prepare: over, objects: []runtime.Object{
		newNode("one", "3920m", bought("m7g.xlarge", "on-demand"), disrupted()), newNode("two", "3920m", bought("m7g.xlarge", "on-demand"), disrupted()),
		replicaSet("web", 2),
	}})
	h.on("one", "a")
	h.on("two", "b")
	h.known("one", 1)
	h.known("two", 1)
	for _, m := range []*api.MakeRoom{
		{NodeNames: []string{"one"}, Reason: "drifted", Pods: []string{"uid-a"}},
		{NodeNames: []string{"one", "two"}, Reason: "drifted", Pods: []string{"uid-a", "uid-b"}},
	} {
		if a := h.move(strings.Join(m.GetNodeNames(), ""), m); !strings.Contains(a.GetNoRoom(), "limit cpu of 7.84 reached: 7.84 in use") {
			t.Errorf("answer %v: want no room", a)
		}
	}
	h.launchedNothing()
}

// Both nodes go in the end, one at a time: the pod of the first one moves to where it stays, not onto the node that goes next.
func TestPodsMoveOnce(t *testing.T) {
	h := twoHalfEmpty(t)
	m := onlyMove(t, h.consolidate("1", "", 1))
	if len(m.GetNodeNames()) != 1 || len(m.GetAvoid()) != 1 || len(m.GetReplacements()) != 1 {
		t.Fatalf("move %v: want one node to go, the other one to be no room for its pod", m)
	}
	going := m.GetNodeNames()[0]
	pod := map[string]string{"one": "uid-a", "two": "uid-b"}[going]
	h.disrupt(going)
	a := h.move("2", &api.MakeRoom{NodeNames: m.GetNodeNames(), Pods: []string{pod}, Bound: &api.LaunchBound{MostPerHour: m.GetMostPerHour()}, Avoid: m.GetAvoid()})
	if a.GetNoRoom() != "" || len(a.GetNodeClaims()) != 1 {
		t.Errorf("answer %v: want the node that both pods end on", a)
	}
}

// An equal node is never bought in exchange, and no spot node for a spot node unless that is allowed.
func TestMoveBuysNothingEqual(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{
		newNode("spot", "1930m", bought("m7g.large", "spot"), disrupted()), newNode("large", "3920m", bought("m7g.xlarge", "spot"), disrupted()),
		replicaSet("web", 2),
	}})
	h.on("spot", "a")
	h.on("large", "b")
	h.known("spot", 1)
	h.known("large", 1)
	for _, c := range []struct {
		node, pod, want string
		spotToSpot      bool
	}{
		{node: "spot", pod: "uid-a", want: "an equal node (m7g.large, spot) would be bought"},
		{node: "large", pod: "uid-b", want: "SpotToSpotConsolidation"},
		{node: "large", pod: "uid-b", want: "only where there are 15", spotToSpot: true},
	} {
		a := h.move(c.node+c.want, &api.MakeRoom{NodeNames: []string{c.node}, Pods: []string{c.pod}, Bound: &api.LaunchBound{MostPerHour: 1, SpotToSpot: c.spotToSpot}})
		if !strings.Contains(a.GetNoRoom(), c.want) {
			t.Errorf("node %s: refused with %q, want %q", c.node, a.GetNoRoom(), c.want)
		}
	}
	h.launchedNothing()
	// Without a bound, for a node that has drifted, an equal one is what is wanted.
	if a := h.move("drift", &api.MakeRoom{NodeNames: []string{"spot"}, Reason: "drifted", Pods: []string{"uid-a"}}); a.GetNoRoom() != "" || len(a.GetNodeClaims()) != 1 {
		t.Errorf("a drifted node is replaced by its like: %v", a)
	}
}

// What the launch of a move would refuse is not decided: with three instance types no spot node is replaced by another one, and two of them are too few for
// minValues of three.
func TestConsolidateDecidesNothingThatIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		capacityType, want string
		minValues          int32
	}{
		{capacityType: "spot", want: "would be cheaper, a spot node is replaced by another one only where there are 15"},
		{capacityType: "on-demand", want: "minValues of NodePool default asks for 3 values of node.kubernetes.io/instance-type", minValues: 3},
	} {
		h := start(t, harnessOptions{
			prepare: func(l *testLauncher) {
				if c.minValues > 0 {
					l.pools[0].Requirements = append(l.pools[0].Requirements, &api.Requirement{
						Key: "node.kubernetes.io/instance-type", Operator: "Exists", MinValues: c.minValues,
					})
				}
			},
			objects: []runtime.Object{newNode("large", "3920m", bought("m7g.xlarge", c.capacityType)), replicaSet("web", 1)},
		})
		h.on("large", "a")
		h.known("large", 1)
		answer := h.decided(&api.Question{Id: c.want, Kind: &api.Question_Consolidate{Consolidate: &api.Consolidate{
			Payback: 7_200_000, MinSaving: 0.005, SpotToSpot: true, Nodes: []*api.FleetNode{{Name: "large", Policy: "WhenEmptyOrUnderutilized"}},
		}}})
		if len(answer.GetMoves()) != 0 || len(answer.GetKept()) != 1 || !strings.Contains(answer.GetKept()[0].GetReason(), c.want) {
			t.Errorf("decided %v, want the node to stay: %s", answer, c.want)
		}
	}
}
