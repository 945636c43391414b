package consolidate_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/slipway-k8s/slipway/launcher/api"
)

// TestOldestLook checks that each node of a fleet that does not change is looked at within five minutes, and that a node that the scheduler had no
// time for shows in the metric.
func TestOldestLook(t *testing.T) {
	for name, c := range map[string]struct {
		late        bool
		least, most time.Duration
	}{
		"all are looked at":          {most: 5 * time.Minute, least: 2 * time.Minute},
		"there is no time for one":   {late: true, most: time.Hour, least: 50 * time.Minute},
		"the scheduler is not there": {most: time.Hour, least: 50 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.answer.Kept = []*api.KeptNode{{Name: "a", Reason: "it is worth it"}, {Name: "b", Reason: "it is worth it", Unlooked: c.late}}
				if c.least > time.Hour/2 && !c.late {
					w.answer = nil
				}
				w.run(time.Hour)
				if got := slices.Max(w.oldest); got < c.least || got > c.most {
					t.Errorf("the oldest look was %s ago at most, want %s to %s", got, c.least, c.most)
				}
			})
		})
	}
}

// keepAll returns an answer that keeps all nodes of a question, with a reason if there is time for as many as may be removed.
func keepAll(q *api.Consolidate, most int) *api.ConsolidateAnswer {
	open := 0
	for _, n := range q.GetNodes() {
		if n.GetBlocked() == "" {
			open++
		}
	}
	out := &api.ConsolidateAnswer{TimedOut: open > most}
	for _, n := range q.GetNodes() {
		out.Kept = append(out.Kept, &api.KeptNode{Name: n.GetName(), Reason: cmp.Or(n.GetBlocked(), "it is worth it"), Unlooked: n.GetBlocked() == "" && open > most})
	}
	return out
}

// TestNodesTakeTurns checks that all nodes are looked at within five minutes also where a decision has no time for all of them, that none says for long that it
// waits for its turn, and that decisions are about all nodes again once there is time.
func TestNodesTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 10 {
			w.node(fmt.Sprint("n", i))
		}
		w.time = 3
		time.AfterFunc(20*time.Minute, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.time = 12
		})
		w.run(40 * time.Minute)
		if got := slices.Max(w.oldest[:len(w.oldest)/2]); got < 30*time.Second || got > 5*time.Minute {
			t.Errorf("the oldest look was %s ago at most", got)
		}
		if slices.ContainsFunc(w.events, func(e string) bool { return strings.Contains(e, "turn") }) {
			t.Errorf("a node that waits for its turn has an Event: %q", w.events)
		}
		last := w.asked[len(w.asked)-1]
		if waits := slices.ContainsFunc(last.GetNodes(), func(n *api.FleetNode) bool { return n.GetBlocked() != "" }); waits {
			t.Errorf("there is time for all nodes, and the last question was %v", last)
		}
	})
}

// TestBlockedNodesAreLookedAt checks that a node that something keeps needs no answer of the scheduler.
func TestBlockedNodesAreLookedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.answer = both() // Both are in a move after that.
		w.run(time.Hour)
		if got := slices.Max(w.oldest); len(w.moves) != 1 || got > time.Minute {
			t.Errorf("%d moves, the oldest look was %s ago", len(w.moves), got)
		}
	})
}

// TestEvictionsCostMoreAfterAMove checks that questions have a higher cost for pods of a NodePool whose pods were evicted, some minutes after that, and that this
// ends with time.
func TestEvictionsCostMoreAfterAMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.node("c")
		w.answer = both()
		go func() {
			time.Sleep(time.Minute)
			w.mu.Lock()
			defer w.mu.Unlock()
			w.answer = &api.ConsolidateAnswer{}
		}()
		w.run(12 * time.Hour)
		cost := func(i int) float64 { return w.asked[i].GetNodes()[0].GetEvictionCost() }
		first, second, most, last := cost(0), cost(1), 0.0, cost(len(w.asked)-1)
		for i := range w.asked {
			most = max(most, cost(i))
		}
		if math.Abs(first-0.01) > 1e-9 || second > 1.1*first || most < 2*first || last > 1.05*first {
			t.Errorf("an eviction costs %.4f USD at first, %.4f soon after two of three pods were evicted, %.4f at most, %.4f half a day later", first, second, most, last)
		}
	})
}
