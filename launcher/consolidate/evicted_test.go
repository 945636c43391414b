package consolidate_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/consolidate/calm"
	"github.com/slipway-k8s/slipway/launcher/view"
)

// evicted is a consolidation of before, with so many evictions.
func evicted(ago time.Duration, n int) view.Decision {
	return view.Decision{At: time.Now().Add(-ago), What: view.Consolidated, NodeClaims: []string{"gone"}, NodePool: "default", Evictions: n}
}

// An eviction costs what those of the process that led before make it cost, also when it leads again in between.
func TestEvictionsOfBeforeCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, began, reads := newWorld(t), time.Now(), 0
		w.another = func() bool { return time.Since(began).Truncate(time.Minute) == 10*time.Minute }
		w.before = func() ([]view.Decision, error) {
			if reads++; reads == 1 {
				return []view.Decision{evicted(time.Hour, 10)}, nil
			}
			return []view.Decision{evicted(time.Hour, 10), evicted(30*time.Minute, 20)}, nil
		}
		w.run(15 * time.Minute)
		var first, last float64
		for _, q := range w.asked {
			if last = q.GetNodes()[0].GetEvictionCost(); first == 0 {
				first = last
			}
		}
		one := calm.EvictionsOf([]view.Decision{evicted(75*time.Minute, 10)}).Costs(map[string]int{"default": 2}, 0.01, time.Now())["default"]
		if reads != 2 || first < 0.05 || last < 1.5*first || one > first {
			t.Errorf("%d reads; an eviction costs %.4f, and %.4f after another has led, and %.4f without what that one did", reads, first, last, one)
		}
	})
}

// A move that is called off before it deletes a node evicts nothing: it makes no eviction more expensive, and is not listed as a saving. One that deletes nodes does.
func TestMovesThatAreCalledOffDoNotCount(t *testing.T) {
	for _, off := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.answer = &api.ConsolidateAnswer{Moves: []*api.PlannedMove{{NodeNames: []string{"a"}, Evictions: 1, Saving: 0.3}}}
			w.callsOff = off
			w.run(20 * time.Minute)
			decided, last := 1, w.asked[len(w.asked)-1].GetNodes()[0].GetEvictionCost()
			if off {
				decided = 0
			}
			if len(w.decided) != decided || (last == 0.01) != off || len(w.asked) < 3 {
				t.Errorf("called off %v: after %d moves an eviction costs %.4f, and %d moves are listed", off, len(w.moves), last, len(w.decided))
			}
		})
	}
}

// Decisions wait for what was decided before for a minute, and do without it after that.
func TestDecisionsOfBeforeCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, began, reads := newWorld(t), time.Now(), 0
		w.before = func() ([]view.Decision, error) {
			reads++
			return nil, errors.New("denied")
		}
		w.run(50 * time.Second)
		if len(w.asked) > 0 {
			t.Errorf("%d decisions after %s", len(w.asked), time.Since(began))
		}
		reads = 0
		w.run(90 * time.Second)
		if reads != 6 || len(w.asked) == 0 || w.asked[0].GetNodes()[0].GetEvictionCost() != 0.01 {
			t.Errorf("%d reads and %d decisions, want six and some", reads, len(w.asked))
		}
	})
}
