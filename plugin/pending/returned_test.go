package pending

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/plugin/intake"
)

// A pod that comes back from nodes that exist for the second time is planned without them, with its gang, until it has not come back for a while.
func TestDivideReturned(t *testing.T) {
	p, now := New(), time.Unix(1000, 0)
	once, twice, mate, other := named("a", "once"), named("a", "twice"), named("a", "mate"), named("b", "other")
	twice.Gang.Name, mate.Gang.Name = "a/gang", "a/gang"
	all := []intake.Entry{once, twice, mate, other}
	p.PlannedToExisting(once.Pod.UID, now)
	p.PlannedToExisting(twice.Pod.UID, now)
	if returned, others := p.DivideReturned(all, now); len(returned) != 0 || len(others) != len(all) {
		t.Errorf("%d pods have returned after one time each", len(returned))
	}
	last := now.Add(returnedFor - 1)
	p.PlannedToExisting(twice.Pod.UID, last)
	p.PlannedToExisting(once.Pod.UID, now.Add(returnedFor)) // The first time is too long ago.
	returned, others := p.DivideReturned(all, last)
	if len(returned) != 2 || returned[0].Pod != twice.Pod || returned[1].Pod != mate.Pod || len(others) != 2 {
		t.Errorf("%v have returned, want the one that did twice and its gang", returned)
	}
	p.Tidy(last, nobody)
	if returned, _ := p.DivideReturned(all, last.Add(returnedFor-1)); len(returned) != 2 {
		t.Error("that the pod came back is forgotten too soon")
	}
	if returned, _ := p.DivideReturned(all, last.Add(returnedFor)); len(returned) != 0 {
		t.Error("that the pod came back counts for too long")
	}
	if p.Tidy(last.Add(2*returnedFor), nobody); len(p.returns) != 0 {
		t.Errorf("%d pods are remembered", len(p.returns))
	}
}

func nobody(*corev1.Pod) bool { return false }
