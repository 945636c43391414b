package plugin

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/buffers"
	"github.com/slipway-k8s/slipway/plugin/catalogview"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/link"
	"github.com/slipway-k8s/slipway/plugin/pending"
	"github.com/slipway-k8s/slipway/plugin/podstatus"
	"github.com/slipway-k8s/slipway/plugin/promise"
	"github.com/slipway-k8s/slipway/plugin/reservations"
	"github.com/slipway-k8s/slipway/plugin/waking"
)

// The first scheduling cycle begins when the promises are restored, or when the launcher has had its time. No later one waits.
func TestTheFirstCycleWaitsForThePromises(t *testing.T) {
	for _, c := range []struct {
		name        string
		known       time.Duration
		first, next time.Duration
	}{
		{"known", 300 * time.Millisecond, 300 * time.Millisecond, 0},
		{"silent", time.Hour, beginWithin, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, start := newBeginning(), time.Now()
				time.AfterFunc(c.known, func() { b.restore(); b.restore() })
				b.wait()
				if waited := time.Since(start); waited != c.first {
					t.Errorf("the first cycle waited %s, want %s", waited, c.first)
				}
				start = time.Now()
				b.wait()
				if waited := time.Since(start); waited != c.next {
					t.Errorf("the second cycle waited %s", waited)
				}
			})
		})
	}
}

// The launcher's questions to a scheduler that has just started wait for its state, but not forever.
func TestQuestionsWaitForTheFirstState(t *testing.T) {
	for _, c := range []struct {
		name  string
		known time.Duration
		waits time.Duration
	}{
		{"known", time.Second, time.Second},
		{"silent", time.Hour, firstStateWithin},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newIdlePlanner(t, func([]catalog.PodRef) {})
			ask := func() {
				p.inbox.question(&api.Question{Id: "1", Kind: &api.Question_MakeRoom{MakeRoom: &api.MakeRoom{NodeNames: []string{"n"}, Purpose: api.Purpose_PURPOSE_TERMINATION}}})
			}
			ask()
			now := time.Now()
			for waited := time.Duration(0); waited < c.waits; waited += 100 * time.Millisecond {
				if p.step(t.Context(), now.Add(waited)); !p.inbox.asking() {
					t.Fatalf("the question was answered after %s, want %s", waited, c.waits)
				}
			}
			if c.known == c.waits {
				p.inbox.update(link.Update{Full: true, Opened: now})
			}
			if p.updates.drain(t.Context(), now); p.gate.closed(now.Add(c.waits)) {
				t.Errorf("the question waits for longer than %s", c.waits)
			}
			if c.known == c.waits {
				return
			}
			// Refused: the next one has its own time.
			p.step(t.Context(), now.Add(c.waits))
			if p.inbox.asking() {
				t.Error("the question was not answered")
			}
			p.step(t.Context(), now.Add(c.waits))
			if ask(); !p.gate.closed(now.Add(c.waits)) {
				t.Error("the next question does not wait")
			}
		})
	}
}

// newIdlePlanner returns a planner without a scheduler, which can apply updates, and refuse. activate gets the pods that are
// released.
func newIdlePlanner(t *testing.T, activate func([]catalog.PodRef)) *planner {
	t.Helper()
	m, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	table, err := promise.New(activate)
	if err != nil {
		t.Fatal(err)
	}
	l, err := link.New(link.Config{
		Socket: "none", OnCatalog: func(link.Update) {}, OnQuestion: func(*api.Question) {}, OnConnection: func(link.Connection) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	args, err := DecodeArgs(nil)
	if err != nil {
		t.Fatal(err)
	}
	none := cache.NewIndexer(cache.MetaNamespaceKeyFunc, nil)
	collected, objects := intake.NewCollector(), &objects{nodes: corelisters.NewNodeLister(none), namespaces: corelisters.NewNamespaceLister(none)}
	parts := plannerParts{
		coreConfig: coreConfig{
			shared: shared{
				guard: &guard{metrics: m}, metrics: m, collected: collected, promises: table, inbox: newInbox(collected.Notify),
				connection: &connection{metrics: m, changed: collected.Notify}, begins: newBeginning(), delays: newDelays(m),
			},
			observed: observed{
				objects: objects, reserved: reservations.New(reservations.Config{}), shares: newOnDemandShares(objects, table, nil), sleep: newSleepers(objects.namespaces),
			}, args: args,
		},
		queue: &queue{objects: objects, profiles: &profiles{}}, link: l, status: podstatus.New(podstatus.Config{}),
		consolidator: &consolidator{}, view: catalogview.New(), buffers: buffers.NewTable(), unplaced: pending.New(), snapshot: &snapshot{}, times: waking.NewTimes(), growth: &growth{off: true},
	}
	p, err := parts.planner()
	if err != nil {
		t.Fatal(err)
	}
	return p
}
