package disrupt_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

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
		pool := &karpv1.NodePool{}
		pool.Name, pool.Spec.Disruption.Budgets = "default", []karpv1.Budget{{Nodes: "100%"}}
		f.create(t.Context(), pool)
		for i := range moves {
			f.addNode(t.Context(), fmt.Sprintf("n%d", i))
		}
		for i := range moves {
			claim := f.claim(t.Context(), fmt.Sprintf("n%d", i))
			if err := f.subject.Start(t.Context(), disrupt.Move{Claims: []*karpv1.NodeClaim{claim}, Reason: karpv1.DisruptionReasonDrifted}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(3 * time.Minute)
		report := f.report(t.Context())
		if n := strings.Count(report, " leaving"); n != moves || strings.Contains(report, "called off") {
			t.Errorf("%d of %d nodes are leaving:\n%s", n, moves, report)
		}
	})
}
