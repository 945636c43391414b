package e2e_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
	"github.com/slipway-k8s/slipway/e2e/sandbox/supervise"
	"github.com/slipway-k8s/slipway/e2e/testbed"
)

// speed divides the delays of simulated machines and of the AWS: a kubelet is there three seconds after its launch.
const speed = 10

// featureGates of the launcher.
const featureGates = "NodeRepair=true,StaticCapacity=true,CapacityBuffer=true,NodeOverlay=true"

// mutationDetector ends the launcher as soon as a part of it has changed an object of its cache, which others read: client-go's informers compare their
// objects with copies (k8s.io/client-go/tools/cache/mutation_detector.go).
const mutationDetector = "KUBE_CACHE_MUTATION_DETECTOR=true"

// launcherSettings is the launcher's configuration file.
func launcherSettings(gates string) []byte {
	return fmt.Appendf(nil, "featureGates: %s\nignoreDRARequests: false\n", gates)
}

// cluster is the sandbox that all tests of the process share. Each test has NodePools and a namespace of its own. Tests that disturb others, such
// as by killing a process or denying an AWS service, have names that end in Alone and run one after the other. All others run beside each other.
// `make test` runs the groups in processes of their own.
type cluster struct {
	*sandbox.Sandbox
	client   client.WithWatch
	recorder *observe.Recorder
	// settings is the path of the launcher's configuration file.
	settings string
	// gaveUp are the waits that came to no end, for the last lines of the output.
	gaveUp chan string
	// figures are those of the tests that the table of `make hostile` has.
	figures figures
}

// shared is set once by TestMain and not changed afterwards.
var shared *cluster

// allHostile runs every attack in its full size, as `make hostile` does; without it TestHostile runs those that have no test of their own,
// in a short form.
var allHostile = flag.Bool("hostile", false, "run every attack of a tenant in its full size")

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	ctrl.SetLogger(klog.Background())
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	folder, err := os.MkdirTemp("", "slipway-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(folder) }()
	if shared, err = start(ctx, filepath.Join(folder, "launcher.yaml")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		// The watches end first: kube-apiserver waits for them.
		cancel()
		if err := shared.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	code = m.Run()
	close(shared.gaveUp)
	for wait := range shared.gaveUp {
		fmt.Fprintln(os.Stderr, wait)
	}
	// Whatever the tests made scheduler and launcher do, the rules of manifests/rbac and the policies of manifests/admission allow it.
	for _, refused := range shared.logged(" is forbidden: User ", "ValidatingAdmissionPolicy 'slipway-launcher") {
		fmt.Fprintln(os.Stderr, "not allowed by manifests/rbac or manifests/admission:", refused)
		code = 1
	}
	for _, fault := range testbed.Faults(shared.Sandbox) {
		fmt.Fprintln(os.Stderr, fault)
		code = 1
	}
	for _, failed := range shared.failures() {
		fmt.Fprintln(os.Stderr, "a part of scheduler or launcher failed:", failed)
		code = 1
	}
	return code
}

// failures returns the lines of the two logs about panics, recovered ones included, about parts of the plugin that were switched off, and about answers of plugins
// with a memory that differed from those of Kubernetes' plugins.
func (c *cluster) failures() []string {
	return c.logged("panic", "is off for a while", "forgets all and begins again")
}

// logged returns the lines of the two logs that have one of the texts.
func (c *cluster) logged(texts ...string) []string {
	var out []string
	for _, name := range []string{sandbox.Scheduler, sandbox.Launcher} {
		text, err := os.ReadFile(c.LogFile(name))
		if err != nil {
			return []string{err.Error()}
		}
		for line := range strings.Lines(string(text)) {
			if slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(line, text) }) {
				out = append(out, strings.TrimSpace(line))
			}
		}
	}
	return out
}

// start brings a sandbox up that has no Node yet: the first test needs it so. settings is where the launcher's are written.
func start(ctx context.Context, settings string) (*cluster, error) {
	if err := os.WriteFile(settings, launcherSettings(featureGates), 0o600); err != nil {
		return nil, err
	}
	sb, err := sandbox.Start(ctx, sandbox.Config{
		Speed:        speed,
		BinDir:       testbed.BinDir(".."),
		ManagedNodes: 0,
		PluginArgs:   map[string]any{"adopt": []string{theirScheduler}, "ignoreDRARequests": false, "deviceTemplates": deviceTemplates()},
		LauncherArgs: []string{"--config=" + settings},
		LauncherEnv:  []string{mutationDetector},
		Progress:     func(text string) { fmt.Fprintln(os.Stderr, text) },
	})
	if err != nil {
		return nil, err
	}
	c := &cluster{Sandbox: sb, settings: settings, gaveUp: make(chan string, 100)}
	if c.client, err = client.NewWithWatch(sb.RESTConfig(), client.Options{Scheme: scheme.Scheme}); err != nil {
		return nil, err
	}
	if c.recorder, err = observe.New(sb.RESTConfig()); err != nil {
		return nil, err
	}
	return c, c.recorder.Start(ctx)
}

// kill ends a process and returns when it has ended. It waits until there is one: another kill may have been just before.
func (w *world) kill(process string) {
	w.t.Helper()
	pid := 0
	w.await(w.t, "the "+process+" to run, so that it can be killed", func() bool {
		pid = w.PID(process)
		err := w.Kill(process)
		if err != nil && !errors.Is(err, supervise.ErrNotRunning) {
			w.t.Fatal(err)
		}
		return pid != 0 && err == nil
	})
	w.await(w.t, "the "+process+" to have ended", func() bool { return w.PID(process) != pid })
}

// binDir is where `make build` put the binaries.
// patience is how long a wait goes on while nothing at all changes in the cluster: far above what anything takes. While something
// does it goes on for mostPatience, on a machine however busy.
const patience, mostPatience = 3 * time.Minute, 10 * time.Minute

// awaitChange waits until done says so, asking at every change of the cluster, and gives up when there are none any more.
func (c *cluster) awaitChange(ctx context.Context, what string, done func() bool) error {
	ctx, cancel := context.WithTimeoutCause(ctx, mostPatience, fmt.Errorf("not within %s", mostPatience))
	defer cancel()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	idle := time.AfterFunc(patience, func() { stop(fmt.Errorf("nothing has changed for %s", patience)) })
	defer idle.Stop()
	last := c.recorder.Changed()
	err := c.recorder.Await(ctx, what, func() bool {
		if now := c.recorder.Changed(); now != last {
			last = now
			idle.Reset(patience)
		}
		return done()
	})
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// await waits until done says so, and ends the test when nothing goes on any more. It prints what the test's own objects look like
// then, and the end of both logs.
func (c *cluster) await(t *testing.T, what string, done func() bool) {
	t.Helper()
	err := c.awaitChange(t.Context(), what, done)
	if err == nil {
		return
	}
	select {
	case shared.gaveUp <- t.Name() + ": " + err.Error():
	default: // A hundred are enough.
	}
	for _, cl := range c.recorder.Claims() {
		if !cl.Deleted.Seen() {
			t.Logf("NodeClaim %s: %+v", cl.Object.Name, cl.Object.Status.Conditions)
		}
	}
	for _, p := range c.recorder.Pods() {
		if !p.Deleted.Seen() && p.Object.Status.Phase != corev1.PodRunning {
			t.Logf("pod %s/%s on node %q is %s: %+v", p.Object.Namespace, p.Object.Name, p.Object.Spec.NodeName,
				p.Object.Status.Phase, p.Object.Status.Conditions)
		}
	}
	for _, name := range []string{"scheduler", "launcher"} {
		if c.Sandbox == nil {
			break // Another process has the logs.
		}
		t.Logf("end of the %s's log:\n%s", name, c.Tail(name, 40))
	}
	t.Fatal(err)
}
