package server_test

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/health"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// promises are the UIDs of the pods that a NodeClaim promises room to.
func (w *world) promises(name string) []string {
	w.t.Helper()
	pods, err := record.Pods(w.claim(name))
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, p := range pods {
		out = append(out, p.UID)
	}
	return out
}

func (w *world) wantPromises(want map[string][]string) {
	w.t.Helper()
	for name, uids := range want {
		if got := w.promises(name); !slices.Equal(got, uids) {
			w.t.Errorf("%s promises room to %v, want %v", name, got, uids)
		}
	}
}

// A pod that is planned again is promised to one node only, whatever the scheduler knows of the first promise: to the last one. A
// terminating one is not changed.
func TestPromisedOnce(t *testing.T) {
	w := newWorld(t, ready("default", nil)...)
	w.launch(&api.LaunchRequest{Claims: []*api.Claim{
		planned("default-1", "default", "u1", "u2", "u3"), planned("default-2", "default", "u4"), planned("default-3", "default", "u5"),
	}})
	if err := w.api.Delete(t.Context(), w.claim("default-3")); err != nil {
		t.Fatal(err)
	}
	w.launch(&api.LaunchRequest{
		Claims: []*api.Claim{planned("default-4", "default", "u1", "u5")},
		Placements: []*api.InFlightPlacement{
			{NodeClaim: "default-2", Pods: []*api.PodRef{{Namespace: "default", Name: "pod-u2", Uid: "u2"}, {Namespace: "default", Name: "pod-u4", Uid: "u4"}}},
		},
	})
	w.wantPromises(map[string][]string{
		"default-1": {"u3"}, "default-2": {"u4", "u2"}, "default-3": {"u5"}, "default-4": {"u1", "u5"},
	})
}

// A pod that was bound where it was first promised stays in that promise, which identifies its owner if its kubelet rejects it; nothing is
// launched for it.
func TestBoundPodKeepsItsPromise(t *testing.T) {
	bound := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod-u1", UID: "u1"}, Spec: corev1.PodSpec{NodeName: "ip-1"}}
	w := newWorld(t, append(ready("default", nil), bound)...)
	w.launch(&api.LaunchRequest{Claims: []*api.Claim{planned("default-1", "default", "u1", "u2")}})
	got := w.launch(&api.LaunchRequest{Claims: []*api.Claim{planned("default-2", "default", "u1"), planned("default-3", "default", "u1", "u2")}, Purpose: api.Purpose_PURPOSE_PENDING_PODS})
	if r := got["default-2"]; r.GetRecorded() || r.GetReason() != "PodsBound" || !got["default-3"].GetRecorded() {
		t.Errorf("results: %v", got)
	}
	w.wantPromises(map[string][]string{"default-1": {"u1"}, "default-3": {"u2"}})
}

// The pods of nodes that terminate are bound, to those nodes: each is promised where it moves to, whether that node is new or on its
// way, and no more where it was promised before.
func TestDisplacedPodIsPromisedWhereItMoves(t *testing.T) {
	for _, purpose := range []api.Purpose{api.Purpose_PURPOSE_TERMINATION, api.Purpose_PURPOSE_MOVE} {
		objects := ready("default", nil)
		for _, meta := range []metav1.ObjectMeta{{Namespace: "default", Name: "pod-u1", UID: "u1"}, {Namespace: "default", Name: "pod-u2", UID: "u2"}} {
			objects = append(objects, &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{NodeName: "ip-1"}})
		}
		w := newWorld(t, objects...)
		w.launch(&api.LaunchRequest{
			Claims: []*api.Claim{planned("default-1", "default", "u1", "u2"), planned("default-2", "default", "u3")}, Purpose: api.Purpose_PURPOSE_PENDING_PODS,
		})
		w.launch(&api.LaunchRequest{
			Claims:     []*api.Claim{planned("default-3", "default", "u1")},
			Placements: []*api.InFlightPlacement{{NodeClaim: "default-2", Pods: []*api.PodRef{{Namespace: "default", Name: "pod-u2", Uid: "u2"}}}},
			Purpose:    purpose,
		})
		w.wantPromises(map[string][]string{"default-1": nil, "default-2": {"u3", "u2"}, "default-3": {"u1"}})
	}
}

// A pod is promised to one NodeClaim also where the node of the first is initialized: a move may be called off and come again, and both nodes stay.
func TestMovedPodLeavesAnInitializedClaim(t *testing.T) {
	on := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "pod-u1", UID: "u1"}, Spec: corev1.PodSpec{NodeName: "ip-1"}}
	w := newWorld(t, append(ready("default", nil), on)...)
	w.launch(&api.LaunchRequest{Claims: []*api.Claim{planned("default-1", "default", "u1")}, Purpose: api.Purpose_PURPOSE_PENDING_PODS})
	claim := w.claim("default-1")
	claim.StatusConditions().SetTrue(karpv1.ConditionTypeLaunched)
	claim.StatusConditions().SetTrue(karpv1.ConditionTypeRegistered)
	claim.StatusConditions().SetTrue(karpv1.ConditionTypeInitialized)
	if err := w.api.Status().Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	w.launch(&api.LaunchRequest{Claims: []*api.Claim{planned("default-2", "default", "u1")}, Purpose: api.Purpose_PURPOSE_MOVE})
	w.wantPromises(map[string][]string{"default-1": nil, "default-2": {"u1"}})
}

// A name is drawn by lot, and may be that of a node that has long joined. What is sent again under its name is recorded once.
func TestNameOfAnotherNode(t *testing.T) {
	w := newWorld(t, ready("default", nil)...)
	w.launch(&api.LaunchRequest{Claims: []*api.Claim{planned("default-1", "default", "u1", "u2")}})
	if r := w.launch(&api.LaunchRequest{Claims: []*api.Claim{planned("default-1", "default", "u1", "u2")}})["default-1"]; !r.GetRecorded() {
		t.Errorf("sent again: %v", r)
	}
	if r := w.launch(&api.LaunchRequest{Claims: []*api.Claim{planned("default-1", "default", "u3")}})["default-1"]; r.GetRecorded() || r.GetReason() != "NameTaken" {
		t.Errorf("the name of another node: %v", r)
	}
	w.wantPromises(map[string][]string{"default-1": {"u1", "u2"}})
}

var errReset = errors.New("read tcp: connection reset by peer")

// losing returns the server's client whose creations and patches succeed, with the answers that lose returns.
func losing(lose func(what string) error) func(client.WithWatch) client.Client {
	return func(c client.WithWatch) client.Client {
		return interceptor.NewClient(c, interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				err := c.Create(ctx, o, opts...)
				if lost := lose("create " + o.GetName()); lost != nil {
					o.SetResourceVersion("") // The answer would have set it.
					return lost
				}
				return err
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				err := c.Patch(ctx, o, p, opts...)
				return cmp.Or(lose("patch "+o.GetName()), err)
			},
		})
	}
}

// A NodeClaim is written and the answer lost, and so are promises: that is no refusal, after which the pods would be planned for a
// second time.
func TestAnswerOfTheAPIServerIsLost(t *testing.T) {
	lost := map[string]*atomic.Bool{"create default-1": {}, "create default-2": {}, "patch default-1": {}}
	w := newWorldOver(t, losing(func(what string) error {
		if first := lost[what]; first != nil && !first.Swap(true) {
			return errReset
		}
		return nil
	}), types(), ready("default", nil)...)
	claims := []*api.Claim{planned("default-1", "default", "u1"), planned("default-2", "default", "u2")}
	placements := []*api.InFlightPlacement{{NodeClaim: "default-1", Pods: []*api.PodRef{{Uid: "u3"}}}}
	for name, r := range w.launch(&api.LaunchRequest{Claims: claims, Placements: placements}) {
		if !r.GetRecorded() {
			t.Errorf("%s: %v", name, r)
		}
	}
	w.wantPromises(map[string][]string{"default-1": {"u1", "u3"}, "default-2": {"u2"}})
	var handed []string
	for range len(w.handed) {
		handed = append(handed, <-w.handed)
	}
	if slices.Sort(handed); !slices.Equal(handed, []string{"default-1", "default-2"}) {
		t.Errorf("handed on: %v", handed)
	}
	for what, first := range lost {
		if !first.Load() {
			t.Errorf("%s did not happen", what)
		}
	}
}

// While the API server does not answer no claim is refused, because a claim that may exist must not be planned again: the request is not
// answered, or a read at the end of its time finds the claim. A repeated request finds it.
func TestAPIServerDoesNotAnswer(t *testing.T) {
	var away atomic.Bool
	away.Store(true)
	w := newWorldOver(t, losing(func(string) error {
		if away.Load() {
			return errReset
		}
		return nil
	}), types(), ready("default", nil)...)
	in := &api.LaunchRequest{Claims: []*api.Claim{planned("default-1", "default", "u1")}}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if answer, err := w.client.Launch(short, in); err == nil && !answer.GetClaims()[0].GetRecorded() {
		t.Fatalf("answered with %v", answer)
	}
	away.Store(false)
	if r := w.launch(in)["default-1"]; !r.GetRecorded() {
		t.Errorf("the second time: %v", r)
	}
}

// What an earlier try has written is not refused, although it would be now.
func TestRefusedButWritten(t *testing.T) {
	w := newWorld(t, ready("default", nil)...)
	in := &api.LaunchRequest{Claims: []*api.Claim{planned("default-1", "default", "u1"), planned("default-2", "default", "u2")}}
	w.launch(&api.LaunchRequest{Claims: in.GetClaims()[:1]})
	w.gate.Store(&health.Gate{Held: true, Why: "its nodes do not join"})
	got := w.launch(in)
	if !got["default-1"].GetRecorded() || got["default-2"].GetRecorded() {
		t.Errorf("want the first alone recorded: %v", got)
	}
}

// A full state is complete: it waits for a request that is being written, whose scheduler may have ended, and for the cache to show what was
// written.
func TestFullStateWaits(t *testing.T) {
	var hidden atomic.Bool
	hidden.Store(true)
	begun, written := make(chan struct{}), make(chan struct{})
	w := newWorldOver(t, func(c client.WithWatch) client.Client {
		return interceptor.NewClient(c, interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				close(begun)
				<-written
				return c.Create(ctx, o, opts...)
			},
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if _, claim := o.(*karpv1.NodeClaim); claim && hidden.Load() {
					key.Name = "not-in-the-cache"
				}
				return c.Get(ctx, key, o, opts...)
			},
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
				if _, claims := list.(*karpv1.NodeClaimList); claims && hidden.Load() {
					return nil
				}
				return c.List(ctx, list, opts...)
			},
		})
	}, types(), ready("default", nil)...)
	answered := make(chan error, 1)
	go func() {
		_, err := w.client.Launch(t.Context(), &api.LaunchRequest{Claims: []*api.Claim{planned("default-1", "default", "u1")}})
		answered <- err
	}()
	<-begun
	updates := w.watch(w.dial())
	// Time enough for a state that does not wait; too little would only miss a fault.
	silent := func() {
		t.Helper()
		select {
		case u := <-updates:
			t.Fatalf("a full state without the NodeClaim: %v", u.GetInFlight())
		case <-time.After(100 * time.Millisecond):
		}
	}
	silent()
	close(written)
	if err := <-answered; err != nil {
		t.Fatal(err)
	}
	silent()
	hidden.Store(false)
	first := w.await(updates, "the first message", func(*api.CatalogUpdate) bool { return true })
	if !first.GetFull() || len(first.GetInFlight()) != 1 || first.GetInFlight()[0].GetNodeClaim() != "default-1" {
		t.Errorf("the first message: full %t, in flight %v", first.GetFull(), first.GetInFlight())
	}
}

// If the API server does not answer, no full state is sent.
func TestNoFullStateWithoutTheAPIServer(t *testing.T) {
	w := newWorld(t, ready("default", nil)...)
	w.readerAway.Store(true)
	stream, err := w.client.WatchCatalog(t.Context(), &api.WatchCatalogRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Unavailable {
		t.Errorf("the stream: %v, want Unavailable", err)
	}
}
