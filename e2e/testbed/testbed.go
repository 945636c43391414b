// Package testbed gives a test or a benchmark a sandbox of its own, with a client and the history of its cluster.
package testbed

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
)

// Patience is how long anything may take, on a machine however busy: what hangs must end before the test binary's own time limit.
const Patience = 4 * time.Minute

// BinDir returns the folder of the binaries of `make build`; root is the path of the repository.
func BinDir(root string) string {
	return cmp.Or(os.Getenv("SLIPWAY_BIN_DIR"), filepath.Join(root, "bin"))
}

// TB is what a Testbed needs of a test or benchmark.
type TB interface {
	// Helper marks the caller as a helper.
	Helper()
	// Context returns a context that ends with the test, before its clean-up.
	Context() context.Context
	// Cleanup calls f when the test has ended.
	Cleanup(f func())
	// Failed reports whether the test has failed.
	Failed() bool
	// Logf writes to the test's log.
	Logf(format string, args ...any)
	// Error fails the test.
	Error(args ...any)
	// Fatal fails the test and ends it.
	Fatal(args ...any)
	// Fatalf fails the test and ends it.
	Fatalf(format string, args ...any)
}

// Testbed is the sandbox of one test.
type Testbed struct {
	*sandbox.Sandbox

	// API is the API server, to an administrator.
	API client.WithWatch
	// Recorder has the history of the cluster's objects since the start.
	Recorder *observe.Recorder

	tb TB
}

// Start starts a sandbox, and stops it when the test has ended. Faults fail the test, and of a failed test the ends of the
// logs are kept.
func Start(tb TB, cfg sandbox.Config) *Testbed {
	tb.Helper()
	sb, err := sandbox.Start(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	t := &Testbed{Sandbox: sb, tb: tb}
	tb.Cleanup(t.stop)
	if t.API, err = client.NewWithWatch(sb.RESTConfig(), client.Options{Scheme: scheme.Scheme}); err != nil {
		tb.Fatal(err)
	}
	if t.Recorder, err = observe.New(sb.RESTConfig()); err != nil {
		tb.Fatal(err)
	}
	// kube-apiserver waits for open watches when it stops. The test's context ends before the clean-up.
	if err := t.Recorder.Start(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	return t
}

func (t *Testbed) stop() {
	if t.tb.Failed() {
		for _, name := range []string{sandbox.Scheduler, sandbox.Launcher} {
			t.tb.Logf("end of the %s's log:\n%s", name, t.Tail(name, 40))
		}
	}
	if err := t.Stop(); err != nil {
		t.tb.Error(err)
	}
	for _, fault := range Faults(t.Sandbox) {
		t.tb.Error(fault)
	}
}

// Faults returns what no test may cause, whatever it does to a sandbox, a line each: ends of scheduler and launcher that neither were asked for nor chosen, and
// requests that AWS's own models do not have. A process may choose to end, such as a scheduler that lost its Lease on a machine that is busy for seconds.
func Faults(sb *sandbox.Sandbox) []string {
	var out []string
	for _, crash := range slices.DeleteFunc(sb.Crashes(), leaves) {
		out = append(out, "no test caused that: "+crash)
	}
	for _, violation := range sb.AWS().Violations() {
		out = append(out, "not as AWS's model says: "+violation)
	}
	return out
}

// Create creates the objects.
func (t *Testbed) Create(objects ...client.Object) {
	t.tb.Helper()
	for _, o := range objects {
		if err := t.API.Create(t.tb.Context(), o); err != nil {
			t.tb.Fatalf("creating %T %s: %v", o, o.GetName(), err)
		}
	}
}

// leaves reports whether a process ended because it was asked to, or because it cannot go on, such as one that lost its Lease. Go's runtime ends one that
// panics with status 2, and the kernel by a signal.
func leaves(end string) bool {
	return slices.ContainsFunc([]string{"exit status 0", "exit status 1", "signal: terminated"}, func(state string) bool { return strings.Contains(end, "("+state+")") })
}

// mostPods bounds the pods that a failed wait lists.
const mostPods = 50

// Await waits until done reports true, at every change of the cluster. It ends the test after Patience, with pods that do not run.
func (t *Testbed) Await(what string, done func() bool) {
	t.tb.Helper()
	ctx, cancel := context.WithTimeout(t.tb.Context(), Patience)
	defer cancel()
	if err := t.Recorder.Await(ctx, what, done); err != nil {
		listed := 0
		for _, p := range t.Recorder.Pods() {
			if !p.Deleted.Seen() && p.Object.Status.Phase != corev1.PodRunning && listed < mostPods {
				listed++
				t.tb.Logf("pod %s on node %q, nominated %q: %+v", p.Object.Name, p.Object.Spec.NodeName, p.Object.Status.NominatedNodeName, p.Object.Status.Conditions)
			}
		}
		t.tb.Fatal(err)
	}
}
