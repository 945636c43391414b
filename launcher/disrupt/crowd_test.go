package disrupt_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/disrupt"
)

// slowScheduler answers one question after the other, each after half a second, also those that are not waited for any more.
type slowScheduler struct{ turn chan struct{} }

func (s *slowScheduler) wait(ctx context.Context) error {
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		s.turn <- struct{}{}
		time.Sleep(500 * time.Millisecond)
		<-s.turn
	}()
	select {
	case <-answered:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Busy implements disrupt.Asker.
func (s *slowScheduler) Busy(ctx context.Context, _ *api.NodeBusy) (bool, string, error) {
	return false, "", s.wait(ctx)
}

// MakeRoom implements disrupt.Asker.
func (s *slowScheduler) MakeRoom(ctx context.Context, _ *api.MakeRoom) (*api.MakeRoomAnswer, error) {
	return &api.MakeRoomAnswer{}, s.wait(ctx)
}

// Moves at once, as a budget of a tenth allows of hundreds of nodes, ask in turns: none is called off for want of an answer.
func TestManyMovesAskInTurns(t *testing.T) {
	const moves = 50
	synctest.Test(t, func(t *testing.T) {
		f := newFlow(t)
		f.stop()
		f.asker, f.gamble = &slowScheduler{turn: make(chan struct{}, 1)}, f.ender
		f.run()
		defer func() { f.stop() }()
		crowd(t, f, moves)
		time.Sleep(3 * time.Minute)
		report := f.report(t.Context())
		if n := strings.Count(report, " leaving"); n != moves || strings.Contains(report, "called off") {
			t.Errorf("%d of %d nodes are leaving:\n%s", n, moves, report)
		}
	})
}

// planner plans for half a second for pods that it has not planned for, and knows the others at once. It answers one question after the other. Each
// plan has a new node, which boots for a while.
type planner struct {
	f    *flow
	boot time.Duration
	turn chan struct{}

	mu sync.Mutex
	// did lists the answers: plan or confirm, and the node.
	did []string
	new map[string]string
}

// Busy implements disrupt.Asker.
func (*planner) Busy(context.Context, *api.NodeBusy) (bool, string, error) { return false, "", nil }

// MakeRoom implements disrupt.Asker.
func (p *planner) MakeRoom(ctx context.Context, q *api.MakeRoom) (*api.MakeRoomAnswer, error) {
	p.turn <- struct{}{}
	defer func() { <-p.turn }()
	node := q.GetNodeNames()[0]
	p.mu.Lock()
	name, known := p.new[node]
	p.mu.Unlock()
	did := "confirm"
	if !known {
		time.Sleep(500 * time.Millisecond)
		did, name = "plan", "new-"+node
		p.f.create(ctx, &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{karpv1.NodePoolLabelKey: "default"}}})
		time.AfterFunc(p.boot, func() { p.f.joins(p.f.t.Context(), name) })
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.new[node], p.did = name, append(p.did, did+" "+node)
	return &api.MakeRoomAnswer{NodeClaims: []string{name}}, nil
}

// crowd is a flow with so many nodes and a budget for all of them.
func crowd(t *testing.T, f *flow, nodes int) {
	t.Helper()
	pool := &karpv1.NodePool{}
	pool.Name, pool.Spec.Disruption.Budgets = "default", []karpv1.Budget{{Nodes: "100%"}}
	f.create(t.Context(), pool)
	for i := range nodes {
		f.addNode(t.Context(), fmt.Sprintf("n%d", i))
	}
	for i := range nodes {
		claim := f.claim(t.Context(), fmt.Sprintf("n%d", i))
		if err := f.subject.Start(t.Context(), disrupt.Move{Claims: []*karpv1.NodeClaim{claim}, Reason: karpv1.DisruptionReasonDrifted}); err != nil {
			t.Fatal(err)
		}
	}
}

// newPlanner is a flow that asks a planner whose nodes boot for so long.
func newPlanner(t *testing.T, boot time.Duration) (*flow, *planner) {
	t.Helper()
	f := newFlow(t)
	f.stop()
	p := &planner{f: f, boot: boot, turn: make(chan struct{}, 1), new: map[string]string{}}
	f.asker, f.gamble = p, f.ender
	f.run()
	return f, p
}

// A move whose nodes are there ends before the last ones have a plan: its nodes cost money twice until then.
func TestMovesThatEndGoFirst(t *testing.T) {
	const moves = 40
	synctest.Test(t, func(t *testing.T) {
		f, p := newPlanner(t, 3*time.Second)
		defer func() { f.stop() }()
		crowd(t, f, moves)
		time.Sleep(2 * time.Minute)
		if n := strings.Count(f.report(t.Context()), " leaving"); n != moves {
			t.Errorf("%d of %d nodes are leaving", n, moves)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		first := slices.IndexFunc(p.did, func(s string) bool { return strings.HasPrefix(s, "confirm") })
		if first < 0 || first > moves/2 {
			t.Errorf("the first move was confirmed after %d answers: %v", first, p.did)
		}
	})
}

// Moves read nothing from the API server while they await their nodes, and otherwise what their end depends on alone.
func TestMovesReadTheCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := newPlanner(t, time.Minute)
		defer func() { f.stop() }()
		crowd(t, f, 5)
		time.Sleep(20 * time.Second)
		before := f.reads.Load()
		time.Sleep(30 * time.Second)
		if read := f.reads.Load() - before; before == 0 || read > 0 {
			t.Errorf("five moves read %d times from the API server while they await their nodes, %d before", read, before)
		}
		time.Sleep(30 * time.Second)
		if n := strings.Count(f.report(t.Context()), " leaving"); n != 5 {
			t.Errorf("%d of 5 nodes are leaving", n)
		}
		// NodeClaim, Node, pods and new NodeClaim before the end and after it, and the NodeClaim for its condition.
		if read := f.reads.Load(); read > 5*9 {
			t.Errorf("five moves read %d times from the API server", read)
		}
	})
}

// A step of a move reads the PodDisruptionBudgets of its pods' namespaces, however many others there are.
func TestMovesReadTheBudgetsOfTheirPodsAlone(t *testing.T) {
	const moves, others = 5, 40
	synctest.Test(t, func(t *testing.T) {
		f, _ := newPlanner(t, time.Minute)
		defer func() { f.stop() }()
		for i := range moves {
			f.bindPod(t.Context(), fmt.Sprintf("p%d", i), fmt.Sprintf("n%d", i))
		}
		f.addBudget(t.Context(), "none", "1")
		for i := range others {
			f.create(t.Context(), &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: fmt.Sprintf("b%d", i)}})
		}
		crowd(t, f, moves)
		time.Sleep(30 * time.Second)
		if lists, items := f.guards.lists.Load(), f.guards.items.Load(); lists == 0 || items != lists {
			t.Errorf("%d lists had %d PodDisruptionBudgets, want the one of the pods' namespace in each", lists, items)
		}
	})
}
