package calm_test

import (
	"maps"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/launcher/consolidate/calm"
	"github.com/slipway-k8s/slipway/launcher/view"
)

// A node counts from when it was first seen, is young again once it was looked at, and is forgotten with its NodeClaim.
func TestLooks(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	var looks calm.Looks
	for i, step := range []struct {
		after time.Duration
		nodes map[types.UID]bool
		want  time.Duration
	}{
		{0, map[types.UID]bool{"a": false, "b": true}, 0},
		{time.Minute, map[types.UID]bool{"a": false, "b": true}, time.Minute},
		{2 * time.Minute, map[types.UID]bool{"a": true, "b": false}, time.Minute},
		{3 * time.Minute, map[types.UID]bool{"a": false, "c": false}, time.Minute},
		{9 * time.Minute, map[types.UID]bool{"c": false}, 6 * time.Minute},
		{10 * time.Minute, nil, 0},
	} {
		var oldest time.Duration
		if looks, oldest = looks.At(now.Add(step.after), step.nodes); oldest != step.want || len(looks) != len(step.nodes) {
			t.Errorf("step %d: the oldest look was %s ago, want %s; %v", i, oldest, step.want, looks)
		}
	}
}

// What is evicted from one NodePool does not make evictions from another cost more, and a NodePool that was deleted leaves nothing.
func TestEvictionCosts(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	evictions := calm.Evictions{}
	evictions.Count("web", 45, now)
	evictions.Count("gone", 1, now)
	got := evictions.Costs(map[string]int{"web": 80, "batch": 5}, 0.01, now.Add(time.Hour))
	if want := 0.01 * evictions["web"].Strain(80, now.Add(time.Hour)); want < 0.04 || got["web"] != want || got["batch"] != 0.01 || len(got) != 2 || len(evictions) != 1 {
		t.Errorf("costs %v, want %v for web; %v", got, want, evictions)
	}
}

// Decisions say what was evicted, in any order, and those that evict nothing do not count.
func TestEvictionsOf(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	want := calm.Evictions{}
	want.Count("web", 45, now.Add(-time.Hour))
	want.Count("web", 5, now)
	got := calm.EvictionsOf([]view.Decision{
		{At: now, What: view.Consolidated, NodePool: "web", Evictions: 5},
		{At: now, What: view.Terminated, NodePool: "web", Evictions: 99},
		{At: now.Add(-time.Hour), What: view.Consolidated, NodePool: "web", Evictions: 45},
	})
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A node where pods come and go without an end is not waited for; once it was quiet it may be again.
func TestUnrest(t *testing.T) {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	unrest, after := calm.Unrest{}, 30*time.Second
	for i, step := range []struct {
		at       time.Duration
		restless bool
		want     bool
	}{
		{0, false, false},
		{10 * time.Second, true, true},
		{130 * time.Second, true, true},
		{131 * time.Second, true, false},
		{time.Hour, true, false},
		{61 * time.Minute, false, false},
		{62 * time.Minute, true, true},
	} {
		if got := unrest.Soon("a", step.restless, &after, now.Add(step.at)); got != step.want {
			t.Errorf("step %d: soon %t, want %t", i, got, step.want)
		}
	}
	if unrest.Soon("b", true, nil, now) {
		t.Error("a node is waited for that is never consolidated")
	}
	unrest.Keep(map[types.UID]bool{"b": true})
	if len(unrest) != 0 {
		t.Errorf("nodes that are gone are remembered: %v", unrest)
	}
}
