package calm_test

import (
	"maps"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/launcher/consolidate/calm"
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
	got := evictions.Costs(map[string]int{"web": 80, "batch": 5}, 0.01, now)
	if want := map[string]float64{"web": 0.07, "batch": 0.01}; !maps.Equal(got, want) || len(evictions) != 1 {
		t.Errorf("costs %v, want %v; %v", got, want, evictions)
	}
}
