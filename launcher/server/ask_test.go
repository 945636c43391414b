package server_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/server"
)

// scheduler opens the stream of questions and answers each with answer; nil answers none.
func (w *world) scheduler(answer func(q *api.Question) *api.Answer) {
	w.t.Helper()
	stream, err := w.client.Ask(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	if err := stream.Send(&api.Answer{}); err != nil {
		w.t.Fatal(err)
	}
	go func() {
		for {
			q, err := stream.Recv()
			if err != nil {
				return
			}
			if q.GetId() == "" {
				continue // It opens the stream.
			}
			if a := answer(q); a != nil {
				a.Id = q.GetId()
				if stream.Send(a) != nil {
					return
				}
			}
		}
	}()
}

// busy asks until the stream is open.
func (w *world) busy(ctx context.Context) (busy bool, reason string, err error) {
	for began := time.Now(); time.Since(began) < patience; time.Sleep(time.Millisecond) {
		if busy, reason, err = w.subject.Busy(ctx, &api.NodeBusy{NodeName: "node-1"}); err == nil || ctx.Err() != nil {
			return busy, reason, err
		}
	}
	return busy, reason, err
}

func TestQuestions(t *testing.T) {
	w := newWorld(t)
	w.scheduler(func(q *api.Question) *api.Answer {
		if room := q.GetMakeRoom(); room != nil {
			claims := append([]string{"for-" + room.GetNodeNames()[0], room.GetReason()}, room.GetAvoid()...)
			return &api.Answer{Kind: &api.Answer_MakeRoom{MakeRoom: &api.MakeRoomAnswer{NodeClaims: claims}}}
		}
		if fleet := q.GetConsolidate(); fleet != nil {
			return &api.Answer{Kind: &api.Answer_Consolidate{Consolidate: &api.ConsolidateAnswer{Message: strings.Join(fleet.GetAvoid(), " ")}}}
		}
		return &api.Answer{Kind: &api.Answer_NodeBusy{NodeBusy: &api.NodeBusyAnswer{Busy: true, Reason: q.GetNodeBusy().GetNodeName() + " has a nominated pod"}}}
	})
	busy, reason, err := w.busy(t.Context())
	if !busy || reason != "node-1 has a nominated pod" || err != nil {
		t.Errorf("busy %t, %q, %v", busy, reason, err)
	}
	q := &api.MakeRoom{NodeNames: []string{"node-2"}, Reason: "spot_interrupted", Avoid: []string{"next"}}
	for range 2 { // What is asked is left as it is.
		room, err := w.subject.MakeRoom(t.Context(), q)
		if diff := cmp.Diff([]string{"for-node-2", "spot_interrupted", "next", "drifted"}, room.GetNodeClaims()); diff != "" || err != nil {
			t.Errorf("error %v, -want +got:\n%s", err, diff)
		}
	}
	if fleet, err := w.subject.Consolidate(t.Context(), &api.Consolidate{}); fleet.GetMessage() != "drifted" || err != nil {
		t.Errorf("avoids %q, error %v", fleet.GetMessage(), err)
	}
}

// No scheduler, a silent one, and a wrong answer: none of it counts as a yes.
func TestQuestionsWithoutAnAnswer(t *testing.T) {
	w := newWorld(t)
	if _, err := w.subject.MakeRoom(t.Context(), &api.MakeRoom{NodeNames: []string{"node-1"}}); !errors.Is(err, server.ErrNoAnswer) {
		t.Errorf("without a scheduler: %v", err)
	}
	heard := make(chan struct{}, 1000)
	w.scheduler(func(*api.Question) *api.Answer {
		heard <- struct{}{}
		return nil
	})
	var err error
	for began := time.Now(); len(heard) == 0 && time.Since(began) < patience; {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, _, err = w.subject.Busy(ctx, &api.NodeBusy{NodeName: "node-1"})
		cancel()
	}
	if len(heard) == 0 || !errors.Is(err, server.ErrNoAnswer) {
		t.Errorf("a silent scheduler: %v", err)
	}
	w.scheduler(func(*api.Question) *api.Answer {
		return &api.Answer{Kind: &api.Answer_Consolidate{Consolidate: &api.ConsolidateAnswer{}}}
	})
	for began := time.Now(); time.Since(began) < patience; {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		_, _, err = w.subject.Busy(ctx, &api.NodeBusy{NodeName: "node-1"})
		answered := ctx.Err() == nil
		cancel()
		if answered {
			break
		}
	}
	if !errors.Is(err, server.ErrNoAnswer) {
		t.Errorf("another kind of answer: %v", err)
	}
	if _, err := w.subject.MakeRoom(t.Context(), &api.MakeRoom{NodeNames: []string{"node-1"}}); !errors.Is(err, server.ErrNoAnswer) {
		t.Errorf("another kind of answer about room: %v", err)
	}
}

// A scheduler that closes its side causes no error.
func TestAskEndsWithItsClient(t *testing.T) {
	w := newWorld(t)
	stream, err := w.client.Ask(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(stream.Send(&api.Answer{}), stream.CloseSend()); err != nil {
		t.Fatal(err)
	}
	if q, err := stream.Recv(); err != nil || q.GetId() != "" || api.SkewOf(q.GetVersion()) != api.SkewNone {
		t.Errorf("the stream opens with %v, error %v", q, err)
	}
	if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
		t.Errorf("error %v", err)
	}
}

// What another provider's controller launches is no room for our pods, and its NodePools are not in the catalog, whatever an EC2NodeClass of the same name
// has.
func TestPoolsOfAnotherProvider(t *testing.T) {
	objects := append(ready("default", nil), ready("auto", nil)...)
	theirs := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "auto-1", Labels: map[string]string{karpv1.NodePoolLabelKey: "auto"}}}
	theirs.Spec.NodeClassRef = &karpv1.NodeClassReference{Group: "eks.amazonaws.com", Kind: "NodeClass", Name: "auto"}
	objects[2].(*karpv1.NodePool).Spec.Template.Spec.NodeClassRef = theirs.Spec.NodeClassRef
	w := newWorld(t, append(objects, theirs)...)
	first := w.await(w.watch(w.client), "the full state", (*api.CatalogUpdate).GetFull)
	if pools := first.GetNodePools(); len(pools) != 1 || pools[0].GetName() != "default" || len(first.GetInFlight()) != 0 {
		t.Errorf("NodePools %v, on their way %v", pools, first.GetInFlight())
	}
}

// A live Karpenter's NodePool is not ready, and what it launches is no room for our pods; what slipway recorded before is.
func TestPoolsOfAnother(t *testing.T) {
	theirs := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "theirs", Labels: map[string]string{karpv1.NodePoolLabelKey: "default"}}}
	w := newWorld(t, append(ready("default", nil), theirs)...)
	w.launch(&api.LaunchRequest{Claims: []*api.Claim{planned("default-1", "default")}})
	updates := w.watch(w.client)
	first := w.await(updates, "the full state", (*api.CatalogUpdate).GetFull)
	if len(first.GetInFlight()) != 2 || !first.GetNodePools()[0].GetReady() {
		t.Errorf("while nobody else is there: %v", first)
	}
	w.foreign.Store(true)
	w.subject.Recheck()
	u := w.await(updates, "a pool that is another's", func(u *api.CatalogUpdate) bool { return len(u.GetNodePools()) > 0 })
	if p := u.GetNodePools()[0]; p.GetReady() || p.GetNotReadyMessage() != "Karpenter lives" {
		t.Errorf("pool %v", p)
	}
	if len(u.GetEnded()) != 1 || u.GetEnded()[0].GetNodeClaim() != "theirs" {
		t.Errorf("ended %v", u.GetEnded())
	}
	got := w.launch(&api.LaunchRequest{Claims: []*api.Claim{planned("default-2", "default")}})["default-2"]
	if got.GetRecorded() || got.GetReason() != "NotManaged" {
		t.Errorf("result %v", got)
	}
}
