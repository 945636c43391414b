package scale_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/invariants"
	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
	"github.com/slipway-k8s/slipway/e2e/scale/calls"
	"github.com/slipway-k8s/slipway/e2e/testbed"
)

// poll is how often a wait looks at the cluster: at each of tens of thousands of changes would cost more than what is measured.
const poll = time.Second

// progress is how often a wait says what it has seen.
const progress = time.Minute

// world is a sandbox of light machines and what it has cost so far.
type world struct {
	*testbed.Testbed
	b                   testing.TB
	scheduler, launcher meter
	counts              calls.Counts
	// unfit means that pods without a node are meant to be.
	unfit bool
	// log is the path of the audit log, and read how much of it has been counted.
	log  string
	read int64
}

// tally is what there is at one moment.
type tally struct {
	// running are the pods that run and stay, and pods those that exist.
	running, pods int
	// nodes are the NodeClaims that exist, by NodePool; initialized those that are, and stay; outdated those that are drifted or terminate.
	nodes                 map[string]int
	initialized, outdated int
	// launched and ended are all NodeClaims so far.
	launched, ended int
}

func (t tally) total() int {
	sum := 0
	for _, n := range t.nodes {
		sum += n
	}
	return sum
}

// newWorld starts a sandbox of light machines, with so many managed nodes. speed divides the delays of AWS and of machines.
func newWorld(tb testing.TB, managed int, speed float64) *world {
	tb.Helper()
	w := &world{b: tb, counts: calls.Counts{}, log: cmp.Or(argument[string]("log"), filepath.Join(tb.TempDir(), "audit.log"))}
	w.Testbed = testbed.Start(tb, sandbox.Config{
		BinDir: testbed.BinDir("../.."), Machines: sandbox.Light, Speed: speed, AuditLog: w.log, NodeSyncs: 10, ManagedNodes: managed,
		// Consolidation has its turn minutes after the nodes were launched.
		LauncherArgs: []string{"--consolidation-node-age=0s", "--consolidation-pod-age=0s", "--enable-profiling"},
		Notice:       func(text string) { tb.Log(text) },
	})
	return w
}

// look counts what there is now.
func (w *world) look() tally {
	t := tally{nodes: map[string]int{}}
	for _, p := range w.Recorder.Pods() {
		if p.Deleted.Seen() {
			continue
		}
		t.pods++
		if !p.Terminating.Seen() && p.Object.Status.Phase == corev1.PodRunning {
			t.running++
		}
	}
	for _, c := range w.Recorder.Claims() {
		if c.Launched.Seen() {
			t.launched++
		}
		if c.Deleted.Seen() {
			t.ended++
			continue
		}
		t.nodes[c.Object.Labels[karpv1.NodePoolLabelKey]]++
		if c.Initialized.Seen() && !c.Terminating.Seen() {
			t.initialized++
		}
		if c.Terminating.Seen() || c.Object.StatusConditions().Get(karpv1.ConditionTypeDrifted).IsTrue() {
			t.outdated++
		}
	}
	return t
}

// sample reads what both processes have used.
func (w *world) sample() {
	w.scheduler.sample(w.b, w.PID(sandbox.Scheduler))
	w.launcher.sample(w.b, w.PID(sandbox.Launcher))
}

// await looks at the cluster until done says so.
func (w *world) await(what string, done func(tally) bool) {
	w.b.Helper()
	limit, report := time.Now().Add(argument[time.Duration]("patience")), time.Now().Add(progress)
	for now := w.look(); !done(now); now = w.look() {
		if time.Now().After(limit) {
			w.b.Fatalf("%s: not within %s: %+v", what, argument[time.Duration]("patience"), now)
		}
		if err := w.Err(); err != nil {
			w.b.Fatal(err)
		}
		w.sample()
		if time.Now().After(report) {
			w.b.Logf("waiting for %s: %+v", what, now)
			report = report.Add(progress)
		}
		time.Sleep(poll)
	}
	w.sample()
}

// stage measures what do does, and judges the cluster after it.
func (w *world) stage(name string, do func()) calls.Stage {
	w.b.Helper()
	w.sample()
	w.tail()
	before, counts, begun := w.look(), maps.Clone(w.counts), time.Now()
	scheduler, launcher := w.scheduler.spent(), w.launcher.spent()
	do()
	out := calls.Stage{Name: name, Took: time.Since(begun)}
	w.sample()
	w.tail()
	after := w.look()
	out.Nodes, out.Pods = after.total(), after.pods
	out.Launched, out.Ended = after.launched-before.launched, after.ended-before.ended
	out.SchedulerCPU, out.LauncherCPU = w.scheduler.spent()-scheduler, w.launcher.spent()-launcher
	out.SchedulerMemory, out.LauncherMemory = w.scheduler.memory, w.launcher.memory
	out.FileMemory = w.scheduler.files + w.launcher.files
	out.Calls, out.Largest = w.counts.Less(counts), w.largest()
	w.judge(name)
	w.profile(name)
	w.b.Logf("%s\n%s", name, calls.Table([]calls.Stage{out}))
	return out
}

// tail counts what the audit log has got since the last time.
func (w *world) tail() {
	w.b.Helper()
	file, err := os.Open(w.log)
	if err != nil {
		w.b.Fatal(err)
	}
	_, errSeek := file.Seek(w.read, io.SeekStart)
	n, errRead := w.counts.Read(file)
	w.read += n
	if err := errors.Join(errSeek, errRead, file.Close()); err != nil {
		w.b.Fatal(err)
	}
}

// judge fails the run for what must never be.
func (w *world) judge(name string) {
	w.b.Helper()
	pods := w.Recorder.Pods()
	if w.unfit {
		pods = slices.DeleteFunc(pods, func(p observe.Pod) bool { return p.Object.Spec.NodeName == "" })
	}
	broken := invariants.Settled(invariants.Evidence{
		Pods: pods, Nodes: w.Recorder.Nodes(), Claims: w.Recorder.Claims(), Instances: w.AWS().Instances(),
	})
	for _, text := range broken[:min(20, len(broken))] {
		w.b.Errorf("after %s: %s", name, text)
	}
}

// largest names the largest object that the API server has, and its size as JSON.
func (w *world) largest() string {
	w.b.Helper()
	size, name := 0, ""
	consider := func(kind string, obj client.Object) {
		text, err := json.Marshal(obj)
		if err != nil {
			w.b.Fatal(err)
		}
		if len(text) > size {
			size, name = len(text), kind+" "+obj.GetName()
		}
	}
	for _, p := range w.Recorder.Pods() {
		if !p.Deleted.Seen() {
			consider("Pod", p.Object)
		}
	}
	for _, n := range w.Recorder.Nodes() {
		if !n.Deleted.Seen() {
			consider("Node", n.Object)
		}
	}
	for _, c := range w.Recorder.Claims() {
		if !c.Deleted.Seen() {
			consider("NodeClaim", c.Object)
		}
	}
	maps := &corev1.ConfigMapList{}
	if err := w.API.List(w.b.Context(), maps, client.InNamespace("kube-system")); err != nil {
		w.b.Fatal(err)
	}
	for i := range maps.Items {
		consider("ConfigMap", &maps.Items[i])
	}
	return fmt.Sprintf("%s: %.1f KiB", name, float64(size)/1024)
}

// profile keeps profiles of both processes where a folder for them is given. They are cumulative: those of two stages can be compared.
func (w *world) profile(name string) {
	folder := argument[string]("profiles")
	if folder == "" {
		return
	}
	for _, process := range []string{sandbox.Launcher, sandbox.Scheduler} {
		for _, kind := range []string{"heap", "allocs"} {
			if err := w.fetch(process, fmt.Sprintf("%s/%s-%s-%s.pprof", folder, process, name, kind), kind); err != nil {
				w.b.Error(err)
			}
		}
	}
}

// fetch writes a profile of a process to a file.
func (w *world) fetch(process, path, kind string) error {
	client, url := http.DefaultClient, w.LauncherURL("/metrics")
	if process == sandbox.Scheduler {
		config := rest.CopyConfig(w.RESTConfig())
		// Its certificate is self-signed.
		config.CAData, config.Insecure = nil, true
		transport, err := rest.TransportFor(config)
		if err != nil {
			return err
		}
		client, url = &http.Client{Transport: transport}, w.SchedulerMetricsURL()
	}
	request, err := http.NewRequestWithContext(w.b.Context(), http.MethodGet, strings.TrimSuffix(url, "/metrics")+"/debug/pprof/"+kind, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	text, errRead := io.ReadAll(response.Body)
	if response.StatusCode != http.StatusOK {
		errRead = errors.Join(errRead, fmt.Errorf("%s answers %s", request.URL, response.Status))
	}
	return errors.Join(errRead, response.Body.Close(), keepFile(path, text))
}

// keepFile writes a file, and the folder that it is in.
func keepFile(path string, text []byte) error {
	return errors.Join(os.MkdirAll(filepath.Dir(path), 0o750), os.WriteFile(path, text, 0o600))
}

// instances counts those of slipway that EC2 has not ended.
func (w *world) instances() int {
	n := 0
	for _, i := range w.AWS().Instances() {
		if i.Live() && i.Tags[karpv1.NodePoolLabelKey] != "" {
			n++
		}
	}
	return n
}
