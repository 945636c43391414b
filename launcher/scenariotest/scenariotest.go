// Package scenariotest makes what scenario tests of the launcher's controllers use in a bubble of testing/synctest: an API server in memory,
// a work queue in place of a manager's, and a trace of what happened.
package scenariotest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/index"
)

// TB is what a Scene needs of a test.
type TB interface {
	// Helper marks the caller as a helper.
	Helper()
	// Context returns a context that ends with the test.
	Context() context.Context
	// Fatal fails the test.
	Fatal(args ...any)
}

// Scene is what one scenario has for itself. One goroutine uses it at a time.
type Scene struct {
	// API is the API server, with the launcher's field indexes.
	API client.Client
	// Start is when the scenario began.
	Start time.Time
	// Fails is how many more calls of Begin fail.
	Fails int

	tb    TB
	trace strings.Builder
	due   map[string]time.Time
}

// New returns a Scene without objects that starts now. Those of the kinds in withStatus have their status as a subresource.
func New(tb TB, withStatus ...client.Object) *Scene {
	b := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithStatusSubresource(withStatus...)
	index.Each(func(o client.Object, field string, value client.IndexerFunc) { b.WithIndex(o, field, value) })
	return &Scene{API: b.Build(), Start: time.Now(), tb: tb, due: map[string]time.Time{}}
}

// Must fails the test with an error that is not nil.
func (s *Scene) Must(err error) {
	s.tb.Helper()
	if err != nil {
		s.tb.Fatal(err)
	}
}

// Duration parses a duration of a scenario.
func (s *Scene) Duration(text string) time.Duration {
	s.tb.Helper()
	d, err := time.ParseDuration(text)
	s.Must(err)
	return d
}

// Log adds a line to the trace.
func (s *Scene) Log(format string, args ...any) { fmt.Fprintf(&s.trace, format+"\n", args...) }

// LogTimed adds a line to the trace that begins with the time since the start.
func (s *Scene) LogTimed(format string, args ...any) {
	fmt.Fprintf(&s.trace, "%5s ", time.Since(s.Start).Round(time.Second))
	s.Log(format, args...)
}

// TakeTrace returns the trace since the last call.
func (s *Scene) TakeTrace() string {
	defer s.trace.Reset()
	return s.trace.String()
}

// Begin implements the controllers' Ender: it logs the call and deletes the NodeClaim, or fails.
func (s *Scene) Begin(ctx context.Context, claim *karpv1.NodeClaim, reason string) error {
	if s.Fails > 0 {
		s.Fails--
		s.LogTimed("begin %s %s fails", claim.Name, reason)
		return errors.New("conflict")
	}
	s.LogTimed("begin %s %s", claim.Name, reason)
	return s.API.Delete(ctx, claim)
}

// Enqueue puts the name of an object without a namespace in the work queue.
func (s *Scene) Enqueue(name string) { s.due[name] = time.Now() }

// Run does what a manager's work queue does for so long. A reconciliation that fails is tried again after a second. Run returns the errors.
func (s *Scene) Run(subject reconcile.Reconciler, d time.Duration) error {
	var failed []error
	for end := time.Now().Add(d); time.Now().Before(end); {
		next := end
		for _, at := range s.due {
			if at.Before(next) {
				next = at
			}
		}
		time.Sleep(time.Until(next))
		for _, name := range slices.Sorted(maps.Keys(s.due)) {
			if time.Now().Before(s.due[name]) {
				continue
			}
			delete(s.due, name)
			result, err := subject.Reconcile(s.tb.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: name}})
			if err != nil {
				failed, result.RequeueAfter = append(failed, err), time.Second
			}
			if result.RequeueAfter > 0 {
				s.due[name] = time.Now().Add(result.RequeueAfter)
			}
		}
	}
	return errors.Join(failed...)
}
