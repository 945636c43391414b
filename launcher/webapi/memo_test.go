package webapi

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/launcher/view"
)

// However many namespaces are asked for, a bounded number of answers is kept.
func TestMemoIsBounded(t *testing.T) {
	var m memo[int]
	now := time.Now()
	for i := range 10 * mostAnswers {
		if got, err := m.get(fmt.Sprint(i), func() time.Time { return now }, func() (int, error) { return i, nil }); err != nil || got != i {
			t.Fatal(got, err)
		}
		if len(m.answers) > mostAnswers {
			t.Fatalf("%d answers are kept", len(m.answers))
		}
	}
	computed := 0
	compute := func() (int, error) { computed++; return computed, fmt.Errorf("failed") }
	for range 2 {
		if _, err := m.get("failing", func() time.Time { return now }, compute); err == nil {
			t.Error("the error is lost")
		}
	}
	if computed != 2 {
		t.Errorf("computed %d times, want again after an error", computed)
	}
}

// Who asks while an answer is computed gets the one before, unless that is old.
func TestAnswerBefore(t *testing.T) {
	var m memo[int]
	now := time.Now()
	clock := func() time.Time { return now }
	get := func(compute func() (int, error)) int {
		t.Helper()
		got, err := m.get("", clock, compute)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	get(func() (int, error) { return 1, nil })
	now = now.Add(2 * fresh)
	got := get(func() (int, error) {
		meanwhile := get(func() (int, error) { t.Error("computed twice at a time"); return 0, nil })
		if meanwhile != 1 {
			t.Errorf("got %d meanwhile, want the answer before", meanwhile)
		}
		return 2, nil
	})
	if got != 2 {
		t.Errorf("got %d, want what was computed", got)
	}
}

// An answer that takes long is computed beside: who asks gets the one before, and who asks next the new one. A panic ends nothing.
func TestAnswerBeside(t *testing.T) {
	var m memo[int]
	var at atomic.Int64
	clock := func() time.Time { return time.Unix(0, at.Load()) }
	ask := func(compute func() (int, error)) int {
		t.Helper()
		got, err := m.get("", clock, compute)
		if err != nil {
			t.Fatal(err)
		}
		m.beside.Wait()
		return got
	}
	slow := func(answer int) func() (int, error) {
		return func() (int, error) { at.Add(int64(2 * quick)); return answer, nil }
	}
	ask(slow(1))
	for _, want := range []int{1, 2} {
		at.Add(int64(fresh + time.Second))
		if got := ask(slow(want + 1)); got != want {
			t.Errorf("got %d, want %d", got, want)
		}
	}
	at.Add(int64(fresh + time.Second))
	if got := ask(func() (int, error) { panic("a bad object") }); got != 3 {
		t.Errorf("got %d, want the answer before", got)
	}
	at.Add(int64(fresh + 2*stale))
	if got := ask(slow(4)); got != 4 {
		t.Errorf("got %d, want a new answer: the one before is old", got)
	}
}

// A viewer that has an answer gets no other one as long as nothing changes, whatever time passes: no answer has ages. What has changed is sent.
func TestUnchangedAnswersAreNotSent(t *testing.T) {
	bound := pendingPod("a", "bound", "")
	bound.Spec.NodeName = "n1"
	unserved := pendingPod("a", "unserved", "")
	unserved.Status.Conditions, unserved.Spec.SchedulerName = nil, "no-such-scheduler"
	booting := claim("default-b", "")
	w := newWorld(t, claim("default-a", "n1"), booting, bound, unserved, pendingPod("a", "waits", "no room"), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}})
	w.types = []catalog.InstanceType{{Name: "m7g.large", Offerings: []catalog.Offering{{
		Zone: "a", CapacityType: "spot", Price: 0.03, UnavailableUntil: w.now().Add(time.Hour), Refusal: ec2error.Refusal{Code: ec2error.InsufficientInstanceCapacity, Since: w.now()},
	}}}}
	w.events = []corev1.Event{{Reason: "Pulling", Message: `Pulling image "web"`, FirstTimestamp: metav1.NewTime(w.now()), ReportingController: "kubelet"}}
	decided := w.now()
	w.config.Decisions = func() []view.Decision {
		return []view.Decision{view.NewDecision(view.Consolidated, decided, "empty", booting)}
	}
	names := strings.NewReplacer("{name}/pods", "n1/pods", "namespaces/{namespace}/pods/{name}", "namespaces/a/pods/bound", "{name}", "default-a")
	for _, r := range w.routes() {
		path := names.Replace(r.path)
		first, _ := w.get(t, "admin", path)
		later := w.now().Add(3 * time.Second)
		w.now = func() time.Time { return later }
		again, _ := w.get(t, "admin", path, "If-None-Match", first.Header.Get("ETag"))
		if first.StatusCode != http.StatusOK || again.StatusCode != http.StatusNotModified || again.ContentLength > 0 {
			t.Errorf("%s: %d, then %d with %d bytes, want %d", path, first.StatusCode, again.StatusCode, again.ContentLength, http.StatusNotModified)
		}
	}
}
