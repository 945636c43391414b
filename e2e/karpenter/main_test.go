package karpenter_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
	"github.com/slipway-k8s/slipway/e2e/sandbox/supervise"
	"github.com/slipway-k8s/slipway/e2e/testbed"
)

// patience is how long one step may take on a machine however busy.
const patience = 8 * time.Minute

func TestMain(m *testing.M) {
	register()
	flag.Parse()
	log.SetLogger(logr.Discard())
	os.Exit(m.Run())
}

// cluster is a sandbox of its own for one test, with what was observed of it.
type cluster struct {
	*sandbox.Sandbox
	t        testing.TB
	client   client.Client
	recorder *observe.Recorder
	// processes are those that stand for the autoscaler and the scheduler.
	processes []string
	// pods is the size of the Deployment.
	pods int
	// children are the processes that are not slipway's.
	children map[string]*supervise.Child
	// stops end them.
	stops map[string]func()
	// changes count the writes of objects that slipway and Karpenter share, by name.
	changes struct {
		sync.Mutex
		of map[string]int
	}
}

// start brings a sandbox up whose nodes Karpenter launches, or slipway, or both.
func start(tb testing.TB, autoscaler string) *cluster {
	tb.Helper()
	return startOn(tb, autoscaler, sandbox.Simulated)
}

// startOn does so with machines of a kind.
func startOn(tb testing.TB, autoscaler, machines string) *cluster {
	tb.Helper()
	tell := func(text string) { fmt.Fprintln(os.Stderr, text) }
	config := sandbox.Config{
		Speed: number(tb, "speed"), BinDir: testbed.BinDir("../.."), WithoutSlipway: autoscaler == karpenter, ManagedNodes: 1, Machines: machines,
		Progress: tell, Notice: tell,
	}
	if autoscaler == both {
		config.StockProfile = stockProfile
	}
	sb, err := sandbox.Start(tb.Context(), config)
	if err != nil {
		tb.Fatal(err)
	}
	c := &cluster{Sandbox: sb, children: map[string]*supervise.Child{}, stops: map[string]func(){}, t: tb, pods: int(number(tb, "pods")), processes: []string{sandbox.Launcher, sandbox.Scheduler}}
	c.changes.of = map[string]int{}
	ctx, cancel := context.WithCancel(context.Background())
	tb.Cleanup(func() {
		cancel() // The watches end first: kube-apiserver waits for them.
		if err := sb.Stop(); err != nil {
			tb.Error(err)
		}
		for _, fault := range testbed.Faults(sb) {
			tb.Error(fault)
		}
	})
	if c.client, err = client.New(sb.RESTConfig(), client.Options{Scheme: scheme.Scheme}); err != nil {
		tb.Fatal(err)
	}
	if c.recorder, err = observe.New(sb.RESTConfig()); err != nil {
		tb.Fatal(err)
	}
	if err := c.recorder.Start(ctx); err != nil {
		tb.Fatal(err)
	}
	switch autoscaler {
	case karpenter:
		c.processes = []string{karpenter, stockScheduler}
		c.startKarpenter(ctx, sb.KubeconfigPath())
		c.startScheduler(ctx)
	case both:
		c.processes = append(c.processes, karpenter)
		c.startKarpenter(ctx, c.account())
	}
	return c
}

// await waits until done says so, asking at every change of the cluster, and ends the test after patience with what there is then.
func (c *cluster) await(what string, done func() bool) {
	c.t.Helper()
	c.awaitWithin(patience, what, done)
}

// awaitWithin is await with another patience.
func (c *cluster) awaitWithin(patience time.Duration, what string, done func() bool) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	err := c.recorder.Await(ctx, what, done)
	if err == nil {
		return
	}
	for _, cl := range c.recorder.Claims() {
		if !cl.Deleted.Seen() {
			c.t.Logf("NodeClaim %s: %+v", cl.Object.Name, cl.Object.Status.Conditions)
		}
	}
	left := 0
	for _, p := range c.recorder.Pods() {
		if !p.Deleted.Seen() && p.Object.Status.Phase != corev1.PodRunning && left < 5 {
			left++
			c.t.Logf("pod %s/%s on node %q is %s: %+v", p.Object.Namespace, p.Object.Name, p.Object.Spec.NodeName, p.Object.Status.Phase, p.Object.Status.Conditions)
		}
	}
	for _, name := range c.processes {
		c.t.Logf("end of the log of %s:\n%s", name, c.Tail(name, 30))
	}
	c.t.Fatalf("not within %s: %s: %v", patience, what, err)
}
