package kubelets_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/slipway-k8s/slipway/e2e/machines/registry"
	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
	"github.com/slipway-k8s/slipway/e2e/testbed"
)

const (
	// speed divides AWS's delays, not those of the kubelets, which are real: an interrupted instance has half a minute.
	speed = 4
	// joinDeadline of nodes for which pods wait, benchJoinDeadline the same in benchmarks, whose machines wait for each other.
	joinDeadline, benchJoinDeadline = 90 * time.Second, 10 * time.Minute
	// patience is for what a busy host with two cores needs for a few boots.
	patience = 5 * time.Minute
	// benchPatience is the same for one step of a benchmark, of which so many rounds may fail.
	benchPatience, maxFailed = 2 * time.Minute, 30
	// lateBy is how long the network of a late node takes, benchLateBy the same in benchmarks.
	lateBy, benchLateBy = 18 * time.Second, 10 * time.Second
	// rate of the registry in bytes per second, benchRate the same in benchmarks.
	rate, benchRate = 20 << 20, 50_000_000
)

// cluster is the sandbox that all tests share. Its machines get their network from a DaemonSet, as EKS's do: at once, or late
// where the node says so.
type cluster struct {
	*sandbox.Sandbox
	client   client.Client
	recorder *observe.Recorder

	mu     sync.Mutex
	pulled []registry.Pull
	sent   []registry.Download
}

// shared is set once by TestMain and not changed afterwards.
var shared *cluster

func TestMain(m *testing.M) {
	register()
	flag.Parse()
	log.SetLogger(logr.Discard())
	if text("bench.table") == "true" {
		if err := printTables(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var err error
	if shared, err = start(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	folder := shared.Folder()
	defer func() {
		cancel()
		if err := shared.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
		for _, left := range leftovers(folder) {
			fmt.Fprintln(os.Stderr, "left behind:", left)
			code = 1
		}
	}()
	code = m.Run()
	for _, fault := range testbed.Faults(shared.Sandbox) {
		fmt.Fprintln(os.Stderr, fault)
		code = 1
	}
	return code
}

// leftovers are what machines leave on the host: nothing.
func leftovers(folder string) []string {
	var out []string
	for _, pattern := range []string{
		folder, filepath.Join("/sys/fs/cgroup/slipway", strconv.Itoa(os.Getpid())), filepath.Join("/sys/fs/cgroup/*/slipway", strconv.Itoa(os.Getpid())),
	} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return []string{err.Error()}
		}
		out = append(out, found...)
	}
	return out
}

func start(ctx context.Context) (*cluster, error) {
	c := &cluster{}
	bytesPerSecond, deadline := int64(rate), joinDeadline
	if text("test.bench") != "" {
		bytesPerSecond, deadline = benchRate, benchJoinDeadline
	}
	tell := func(text string) { fmt.Fprintln(os.Stderr, text) }
	var err error
	c.Sandbox, err = sandbox.Start(ctx, sandbox.Config{
		Speed: speed, BinDir: testbed.BinDir("../.."), Machines: sandbox.RealKubelets, Progress: tell, Notice: tell,
		Kubelets:     sandbox.Kubelets{NetworkByAgent: true, RegistryBytesPerSecond: bytesPerSecond, Pulled: c.pull, Downloaded: c.download},
		LauncherArgs: []string{"--join-deadline=" + deadline.String(), "--feature-gates=CapacityBuffer=true"},
	})
	if err != nil {
		return nil, err
	}
	if c.client, err = client.New(c.RESTConfig(), client.Options{Scheme: scheme.Scheme}); err != nil {
		return nil, err
	}
	if c.recorder, err = observe.New(c.RESTConfig()); err != nil {
		return nil, err
	}
	if err := c.recorder.Start(ctx); err != nil {
		return nil, err
	}
	for _, obj := range []client.Object{nodeClass("default", ""), agent("network", 0), agent("network-late", lateBy), agent("network-bench", benchLateBy)} {
		if err := c.client.Create(ctx, obj); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *cluster) pull(p registry.Pull) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pulled = append(c.pulled, p)
}

func (c *cluster) download(d registry.Download) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sent = append(c.sent, d)
}

// downloads are what machines were sent of the images whose names begin so.
func (c *cluster) downloads(prefix string) []registry.Download {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.sent), func(d registry.Download) bool { return !strings.HasPrefix(d.Repository, prefix) })
}

// pulls are the times at which machines began to pull an image.
func (c *cluster) pulls(image string) []time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []time.Time
	for _, p := range c.pulled {
		if p.Image == image {
			out = append(out, p.At)
		}
	}
	return out
}

// await waits until done says so, asking at every change of the cluster. It fails the test when the time is up, with what the
// cluster looks like then.
func (c *cluster) await(tb testing.TB, what string, done func() bool) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	if err := c.recorder.Await(ctx, what, done); err != nil {
		tb.Errorf("not within %s: %s", patience, what)
		c.tell(tb)
		tb.FailNow()
	}
}

// tell logs what the cluster looks like.
func (c *cluster) tell(tb testing.TB) {
	tb.Helper()
	for _, cl := range c.recorder.Claims() {
		if !cl.Deleted.Seen() {
			tb.Logf("NodeClaim %s: %+v", cl.Object.Name, cl.Object.Status.Conditions)
		}
	}
	for _, p := range c.recorder.Pods() {
		if !p.Deleted.Seen() && p.Object.Status.Phase != corev1.PodRunning {
			tb.Logf("pod %s/%s on node %q is %s: %+v", p.Object.Namespace, p.Object.Name, p.Object.Spec.NodeName, p.Object.Status.Phase, p.Object.Status.Conditions)
		}
	}
	for _, name := range []string{sandbox.Scheduler, sandbox.Launcher} {
		tb.Logf("end of the %s's log:\n%s", name, c.Tail(name, 30))
	}
	logs, err := filepath.Glob(filepath.Join(c.Folder(), "machines", "*", "kubelet.log"))
	if err != nil {
		tb.Error(err)
	}
	for _, path := range logs {
		tb.Logf("end of %s:\n%s", path, tail(path))
	}
}

func tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-3000):])
}

// node is the history of a Node by name, nil where there is none.
func (c *cluster) node(name string) *observe.Node {
	nodes := c.recorder.Nodes()
	i := slices.IndexFunc(nodes, func(n observe.Node) bool { return n.Object.Name == name })
	if i < 0 {
		return nil
	}
	return &nodes[i]
}
