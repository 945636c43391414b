package announce_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"github.com/slipway-k8s/slipway/internal/announce"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// apiServer takes 10 ms for each Event.
type apiServer struct {
	mu     sync.Mutex
	counts map[string]int32
	// refuse answers the first calls.
	refuse []error
}

func (s *apiServer) take(e *corev1.Event) (*corev1.Event, error) {
	time.Sleep(10 * time.Millisecond)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.refuse) > 0 {
		err := s.refuse[0]
		s.refuse = s.refuse[1:]
		return nil, err
	}
	s.counts[e.Source.Component+" "+e.InvolvedObject.Name+" "+e.Reason] = e.Count
	return e, nil
}

func (s *apiServer) CreateWithEventNamespaceWithContext(_ context.Context, e *corev1.Event) (*corev1.Event, error) {
	return s.take(e)
}

func (s *apiServer) PatchWithEventNamespaceWithContext(_ context.Context, e *corev1.Event, _ []byte) (*corev1.Event, error) {
	return s.take(e)
}

func pod(n int) *corev1.Pod {
	name := fmt.Sprintf("pod-%d", n)
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
}

// world has an Announcer that runs until stop.
type world struct {
	*apiServer
	*announce.Announcer
	metrics *prometheus.Registry
	stop    func()
}

func newWorld(t *testing.T, refuse ...error) *world {
	t.Helper()
	return newWorldOf(t, 0, refuse...)
}

// newWorldOf has writers that know of so many Events each.
func newWorldOf(t *testing.T, remembered int, refuse ...error) *world {
	t.Helper()
	w := &world{apiServer: &apiServer{counts: map[string]int32{}, refuse: refuse}, metrics: prometheus.NewRegistry()}
	var err error
	w.Announcer, err = announce.New(announce.Config{Sink: w.apiServer, Scheme: scheme.Scheme, Registerer: w.metrics, Remembered: remembered})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- w.Run(ctx) }()
	w.stop = func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	return w
}

func (w *world) dropped(t *testing.T, n int) {
	t.Helper()
	want := fmt.Sprintf("# HELP slipway_events_dropped_total Events that were not written: the API server refused them, or did not take them for long.\n"+
		"# TYPE slipway_events_dropped_total counter\nslipway_events_dropped_total %d\n", n)
	if err := testutil.GatherAndCompare(w.metrics, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// All of ten thousand Events, queued at once, are written.
func TestWaveIsWrittenWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const wave = 10_000
		w := newWorld(t)
		recorder := w.Recorder("slipway")
		for n := range wave {
			recorder.Eventf(pod(n), corev1.EventTypeNormal, "PreBound", "Bound to node %s", "n")
		}
		time.Sleep(time.Minute)
		w.stop()
		if len(w.counts) != wave {
			t.Errorf("%d of %d Events were written", len(w.counts), wave)
		}
		w.dropped(t, 0)
	})
}

// Equal Events are counted, not written again; another component's is a separate Event.
func TestEqualEventsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for range 3 {
			w.Recorder("slipway").Eventf(pod(1), corev1.EventTypeNormal, "PreBound", "Bound to node n")
		}
		w.Recorder("karpenter").Eventf(pod(1), corev1.EventTypeNormal, "Evicted", "Evicted pod: empty")
		time.Sleep(time.Second)
		w.stop()
		if fmt.Sprint(w.counts) != "map[karpenter pod-1 Evicted:1 slipway pod-1 PreBound:3]" {
			t.Errorf("counts: %v", w.counts)
		}
	})
}

// An API server that is away for a while gets the Event later; one in a namespace that ends is not missed; one that is
// refused is counted.
func TestRefusals(t *testing.T) {
	ending := apierrors.NewForbidden(corev1.Resource("events"), "e", errors.New("it is being terminated"))
	ending.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	for _, c := range []struct {
		name             string
		err              error
		written, dropped int
	}{
		{"away", errors.New("connection refused"), 1, 0},
		{"overloaded", apierrors.NewTooManyRequests("later", 1), 1, 0},
		{"ending", ending, 0, 0},
		{"refused", apierrors.NewBadRequest("no"), 0, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, c.err)
				w.Recorder("slipway").Eventf(pod(1), corev1.EventTypeNormal, "PreBound", "Bound to node n")
				time.Sleep(time.Minute)
				w.stop()
				if len(w.counts) != c.written {
					t.Errorf("written: %v", w.counts)
				}
				w.dropped(t, c.dropped)
			})
		})
	}
}

// What is queued when the launcher ends is still written.
func TestLastWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for n := range 100 {
			w.Recorder("slipway").Eventf(pod(n), corev1.EventTypeNormal, "PreBound", "Bound to node n")
		}
		w.stop()
		if len(w.counts) != 100 {
			t.Errorf("%d of 100 Events were written", len(w.counts))
		}
	})
}

// silence is an API server that does not answer: the connection fails 45 seconds later.
type silence struct{}

func (silence) RoundTrip(r *http.Request) (*http.Response, error) {
	select {
	case <-r.Context().Done():
		return nil, r.Context().Err()
	case <-time.After(45 * time.Second):
		return nil, errors.New("connection lost")
	}
}

// A process ends in time beside an API server that does not answer, also in the middle of a write.
func TestLastWordsWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, err := announce.NewFor(&rest.Config{Host: "http://api", Transport: silence{}}, prometheus.NewRegistry(), 0)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- a.Run(ctx) }()
		for n := range 100 {
			a.Recorder("slipway").Eventf(pod(n), corev1.EventTypeNormal, "PreBound", "Bound to node n")
		}
		time.Sleep(time.Second)
		cancel()
		ended := time.Now()
		if err := <-done; err != nil || time.Since(ended) > 3*time.Second {
			t.Errorf("it ended %s after its context: %v", time.Since(ended), err)
		}
	})
}

func TestNewNamesWhatIsMissing(t *testing.T) {
	if _, err := announce.New(announce.Config{}); err == nil {
		t.Error("no error")
	}
}

// An Event that comes again is counted together with the first one while that is remembered, and is a new one after that.
func TestEventsAreForgotten(t *testing.T) {
	for remembered, want := range map[int]int32{0: 2, 10: 1} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorldOf(t, remembered)
			recorder := w.Recorder("slipway")
			for n := range 1000 {
				recorder.Eventf(pod(n), corev1.EventTypeNormal, "PreBound", "Bound to node %s", "n")
			}
			recorder.Eventf(pod(0), corev1.EventTypeNormal, "PreBound", "Bound to node %s", "n")
			time.Sleep(time.Minute)
			w.stop()
			if got := w.counts["slipway pod-0 PreBound"]; got != want {
				t.Errorf("the Event is counted %d times by writers that remember %d, want %d", got, remembered, want)
			}
		})
	}
}
