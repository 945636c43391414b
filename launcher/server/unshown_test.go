package server_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
)

// A node that came and went between two looks of a stream is sent as ended all the same: the scheduler waits for it. One that was shown ends once, whichever
// of its end the stream learns of first: that the cache has none, or the informer's event.
func TestEndOfANodeThatWasNeverShown(t *testing.T) {
	w := newWorld(t, ready("default", nil)...)
	informer, err := w.cache.FakeInformerFor(t.Context(), &karpv1.NodeClaim{})
	if err != nil {
		t.Fatal(err)
	}
	updates, ends := w.watch(w.client), map[string]int{}
	await := func(what string, satisfies func(*api.CatalogUpdate) bool) *api.CatalogUpdate {
		t.Helper()
		return w.await(updates, what, func(u *api.CatalogUpdate) bool {
			for _, e := range u.GetEnded() {
				ends[e.GetNodeClaim()]++
			}
			return satisfies(u)
		})
	}
	await("the full state", (*api.CatalogUpdate).GetFull)

	brief := &karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: "default-brief"}}
	w.subject.Failed(brief, "InsufficientInstanceCapacity", "none")
	informer.Delete(brief)
	end := await("the end of the NodeClaim", func(u *api.CatalogUpdate) bool { return len(u.GetEnded()) > 0 }).GetEnded()[0]
	if end.GetNodeClaim() != "default-brief" || end.GetOutcome() != api.Outcome_OUTCOME_FAILED || end.GetReason() != "InsufficientInstanceCapacity" {
		t.Errorf("got %v", end)
	}

	ending := func(name string) func(*api.CatalogUpdate) bool {
		return func(u *api.CatalogUpdate) bool {
			return len(u.GetEnded()) > 0 && u.GetEnded()[0].GetNodeClaim() == name
		}
	}
	for _, name := range []string{"default-event-last", "default-event-first"} {
		w.launch(&api.LaunchRequest{Claims: []*api.Claim{planned(name, "default")}})
		await(name, func(u *api.CatalogUpdate) bool {
			return len(u.GetInFlight()) > 0 && u.GetInFlight()[0].GetNodeClaim() == name
		})
	}
	last, first := w.claim("default-event-last"), w.claim("default-event-first")
	if err := w.api.Delete(t.Context(), last.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	await("the end by the cache", ending(last.Name))
	informer.Delete(last)
	informer.Delete(first)
	if err := w.api.Delete(t.Context(), first.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	await("the end of the other", ending(first.Name))
	w.launch(&api.LaunchRequest{Claims: []*api.Claim{planned("default-next", "default")}})
	await("a message after all of these", func(u *api.CatalogUpdate) bool { return len(u.GetInFlight()) > 0 })
	for name, n := range ends {
		if n != 1 {
			t.Errorf("NodeClaim %s ended %d times", name, n)
		}
	}
	if len(ends) != 3 {
		t.Errorf("ends of %v, want three", ends)
	}
}
