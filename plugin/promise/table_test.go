package promise_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/promise"
)

// A gated pod ignores all events, so a way out that forgets to activate loses the pod. Every exported method that can
// make the table smaller is walked here.
func TestEveryWayOutActivates(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ways := map[string]func(*promise.Table){
		"deleted or refused": func(tb *promise.Table) { tb.Release("u1", "u2", "unknown") },
		"bound": func(tb *promise.Table) {
			tb.Bound("u1", start)
			tb.Bound("u2", start)
			tb.Bound("unknown", start)
		},
		"claim ended":     func(tb *promise.Table) { tb.ReleaseClaim("default-a") },
		"initialized":     func(tb *promise.Table) { tb.ReleaseInitialized("default-a", start) },
		"deadline passed": func(tb *promise.Table) { tb.ReleaseExpired(start.Add(time.Minute)) },
		"launcher does not know": func(tb *promise.Table) {
			tb.ReleaseUnknown(func(string) bool { return false }, start.Add(time.Second))
		},
	}
	for name, leave := range ways {
		t.Run(name, func(t *testing.T) {
			var table *promise.Table
			var activated []string
			leaves := false
			table, err := promise.New(func(refs []catalog.PodRef) {
				for _, r := range refs {
					if !leaves {
						continue
					}
					if _, held := table.Get(types.UID(r.UID)); held {
						t.Errorf("pod %s was activated before it was released", r.Name)
					}
					activated = append(activated, r.UID)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			table.Hold(
				promise.Promise{Pod: catalog.PodRef{Name: "a", UID: "u1"}, NodeClaim: "default-a", Since: start, Deadline: start.Add(time.Minute)},
				promise.Promise{Pod: catalog.PodRef{Name: "b", UID: "u2"}, NodeClaim: "default-a", Since: start, Deadline: start.Add(time.Minute)},
			)
			leaves = true
			leave(table)
			if want := []string{"u1", "u2"}; !slices.Equal(activated, want) {
				t.Errorf("activated %v, want %v", activated, want)
			}
			if table.Len() != 0 || len(table.OfClaim("default-a")) != 0 {
				t.Errorf("%d promises left", table.Len())
			}
		})
	}
}

// The promise of a pod that the launcher has bound stays until the scheduler has seen it: another would be placed where it runs.
func TestPreBoundPodsAreWaitedFor(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	table, err := promise.New(func([]catalog.PodRef) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, uid := range []string{"bound", "late", "open"} {
		table.Hold(promise.Promise{Pod: catalog.PodRef{Name: uid, UID: uid}, NodeClaim: "default-a", Since: start, Deadline: start.Add(time.Hour)})
	}
	held := func() []string {
		var out []string
		for _, p := range table.OfClaim("default-a") {
			if _, ok := table.Held(types.UID(p.Pod.UID)); ok {
				out = append(out, p.Pod.Name)
			}
		}
		return out
	}
	table.Open("bound", "open")
	table.PreBound("default-b", []string{"open"})
	table.PreBound("default-a", []string{"bound", "late", "unknown"})
	table.ReleaseUnknown(func(string) bool { return false }, start)
	if got := held(); !slices.Equal(got, []string{"bound", "late"}) {
		t.Errorf("held before the end: %v", got)
	}
	if out := table.ReleaseInitialized("default-a", start.Add(time.Minute)); len(out) != 1 || out[0].Pod.Name != "open" {
		t.Errorf("released with the end: %v", out)
	}
	table.ReleaseUnknown(func(string) bool { return false }, start.Add(time.Hour))
	table.Bound("bound", start.Add(time.Second))
	if got := held(); !slices.Equal(got, []string{"late"}) {
		t.Errorf("held after one was seen bound: %v", got)
	}
	if out := table.ReleaseExpired(start.Add(time.Minute)); len(out) != 1 || table.Len() != 0 {
		t.Errorf("released at the deadline: %v", out)
	}
}

func TestOthersStay(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	table, err := promise.New(func([]catalog.PodRef) {})
	if err != nil {
		t.Fatal(err)
	}
	hold := func(uid, claim string, since time.Duration) {
		table.Hold(promise.Promise{
			Pod: catalog.PodRef{Name: uid, UID: uid}, NodeClaim: claim,
			Since: start.Add(since), Deadline: start.Add(since + time.Minute),
		})
	}
	hold("old", "default-a", 0)
	hold("young", "default-b", 30*time.Second)

	if got := table.ReleaseUnknown(func(string) bool { return false }, start.Add(10*time.Second)); len(got) != 1 || got[0].Pod.UID != "old" {
		t.Errorf("released %v, want the one that the launcher must have heard of", got)
	}
	table.Recorded("default-b", start.Add(time.Minute))
	if got := table.ReleaseUnknown(func(string) bool { return false }, start.Add(45*time.Second)); got != nil {
		t.Errorf("released %v, which the launcher recorded later", got)
	}
	if got := table.ReleaseExpired(start.Add(time.Minute)); got != nil {
		t.Errorf("released %v before its deadline", got)
	}
	table.Confirm("default-b", start.Add(time.Hour))
	table.SetNode("default-b", "ip-10-0-0-1")
	if got := table.ReleaseExpired(start.Add(2 * time.Minute)); got != nil {
		t.Errorf("released %v before the launcher's deadline", got)
	}
	if !table.OnNode("ip-10-0-0-1") || table.OnNode("ip-10-0-0-2") {
		t.Error("the node of the promise is not known")
	}
	hold("young", "default-c", time.Minute)
	if got := table.Claims(); len(got) != 1 || len(got["default-c"]) != 1 {
		t.Errorf("a second promise must replace the first: %v", got)
	}
}

// The scheduler's cache may show a pod on its node later than the promise ends.
func TestBoundLately(t *testing.T) {
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	table, err := promise.New(func([]catalog.PodRef) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, uid := range []string{"a", "b", "c", "d"} {
		table.Hold(promise.Promise{Pod: catalog.PodRef{Name: uid, UID: uid}, NodeClaim: "default-a", Since: start})
	}
	coming := func(at time.Duration) string {
		out := ""
		for _, p := range table.Coming("default-a", start.Add(at)) {
			out += p.Pod.Name
		}
		return out
	}
	table.Release("a")
	table.Bound("c", start)
	table.Bound("b", start.Add(8*time.Second))
	if got := coming(9 * time.Second); got != "bcd" {
		t.Errorf("coming: %q, want what is bound lately and what is held", got)
	}
	table.Bound("d", start.Add(11*time.Second))
	if got := coming(11 * time.Second); got != "bd" {
		t.Errorf("coming: %q, want what is bound lately", got)
	}
	if got := coming(time.Minute); got != "" || table.Len() != 0 {
		t.Errorf("coming: %q, %d held, want none", got, table.Len())
	}
}

func TestNewNeedsActivate(t *testing.T) {
	if _, err := promise.New(nil); err == nil {
		t.Error("a table that cannot activate would lose pods")
	}
}

// The queue gates a pod when it is asked for it again: until then each event about a node is compared with what the pod needs.
func TestHeldPodsAreGated(t *testing.T) {
	var table *promise.Table
	var gated []string
	table, err := promise.New(func(refs []catalog.PodRef) {
		for _, r := range refs {
			if _, held := table.Held(types.UID(r.UID)); held {
				gated = append(gated, r.UID)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	table.Hold(promise.Promise{Pod: catalog.PodRef{Name: "a", UID: "u1"}}, promise.Promise{Pod: catalog.PodRef{Name: "b", UID: "u2"}})
	if want := []string{"u1", "u2"}; !slices.Equal(gated, want) {
		t.Errorf("the queue gates %v, want %v", gated, want)
	}
}

// An open promise keeps its slot, and its pod is tried.
func TestOpen(t *testing.T) {
	var activated []string
	table, err := promise.New(func(refs []catalog.PodRef) {
		for _, r := range refs {
			activated = append(activated, r.UID)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	table.Hold(
		promise.Promise{Pod: catalog.PodRef{Name: "a", UID: "u1"}, NodeClaim: "default-a"},
		promise.Promise{Pod: catalog.PodRef{Name: "b", UID: "u2"}, NodeClaim: "default-a"},
	)
	activated = nil
	table.Open("u1", "unknown")
	if !slices.Equal(activated, []string{"u1"}) {
		t.Errorf("activated %v, want u1", activated)
	}
	if _, held := table.Held("u1"); held {
		t.Error("a pod with an open promise has to wait")
	}
	if _, held := table.Held("u2"); !held {
		t.Error("a promise that was not opened is")
	}
	if n := len(table.OfClaim("default-a")); n != 2 {
		t.Errorf("%d promises on the claim, want 2: an open one has its slot", n)
	}
	table.Hold(promise.Promise{Pod: catalog.PodRef{Name: "a", UID: "u1"}, NodeClaim: "default-b"})
	if _, held := table.Held("u1"); !held {
		t.Error("the promise of another node is open")
	}
}

// Promises are found by the name of their Node, also those whose pod was bound lately.
func TestComingByNode(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	table, err := promise.New(func([]catalog.PodRef) {})
	if err != nil {
		t.Fatal(err)
	}
	of := func(uid, claim string) promise.Promise {
		return promise.Promise{Pod: catalog.PodRef{Namespace: "default", Name: uid, UID: uid}, NodeClaim: claim}
	}
	table.Hold(of("b", "one"), of("a", "one"), of("c", "two"), of("unnamed", "three"))
	table.SetNode("one", "ip-1")
	table.SetNode("two", "ip-2")
	table.Bound("b", now)
	names := func(at time.Time) map[string][]string {
		out := map[string][]string{}
		for node, list := range table.ComingByNode(at) {
			for _, p := range list {
				out[node] = append(out[node], p.Pod.Name)
			}
			slices.Sort(out[node])
		}
		return out
	}
	if got, want := names(now), (map[string][]string{"ip-1": {"a", "b"}, "ip-2": {"c"}}); !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("%v come to their nodes, want %v", got, want)
	}
	if got, want := names(now.Add(time.Minute)), (map[string][]string{"ip-1": {"a"}, "ip-2": {"c"}}); !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("after a minute %v come to their nodes, want %v", got, want)
	}
}
