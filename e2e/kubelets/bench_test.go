package kubelets_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/kubelets/figures"
	"github.com/slipway-k8s/slipway/e2e/machines/kubelet"
	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// way is how pods come to their node.
type way struct {
	name string
	// bound is launch: by the benchmark, as soon as the Node exists; auto: by the launcher; scheduler: by the scheduler's own
	// cycle, since the pods have no controller.
	bound string
	// off says that the nodes do not prefetch.
	off bool
}

// cell is one situation.
type cell struct {
	network time.Duration
	image   string
	pods    int
}

func (c cell) String() string {
	return fmt.Sprintf("network=%s/image=%s/pods=%d", c.network, c.image, c.pods)
}

// ways are how the pods of a cell come to their node. Small images gain nothing from prefetching.
func (c cell) ways() []way {
	if c.image == "main" {
		return []way{{name: "launch", bound: "launch"}, {name: "auto", bound: "auto"}, {name: "scheduler", bound: "scheduler"}}
	}
	return []way{
		{name: "launch", bound: "launch"},
		{name: "auto", bound: "auto", off: true},
		{name: "auto+prefetch", bound: "auto"},
		{name: "scheduler", bound: "scheduler", off: true},
		{name: "scheduler+prefetch", bound: "scheduler"},
	}
}

// cells are those whose name matches.
func cells(b *testing.B, pattern string) (cells []cell, out []figures.Cell) {
	b.Helper()
	wanted, err := regexp.Compile(pattern)
	if err != nil {
		b.Fatal(err)
	}
	for _, network := range []time.Duration{0, benchLateBy} {
		for _, image := range []string{"main", "pad-200"} {
			for _, pods := range []int{1, 10, 30} {
				c := cell{network: network, image: image, pods: pods}
				if !wanted.MatchString(c.String()) {
					continue
				}
				var names []string
				for _, w := range c.ways() {
					names = append(names, w.name)
				}
				cells = append(cells, c)
				out = append(out, figures.Cell{Name: c.String(), Ways: names})
			}
		}
	}
	if len(out) == 0 {
		b.Fatalf("-bench.cells %q matches no cell such as %s", pattern, cell{benchLateBy, "pad-200", 10})
	}
	return cells, out
}

// BenchmarkStart measures the time from a kubelet's start until all pods of its node run. Each round tries every way of a cell,
// one after the other, so that a busy host is as busy for each; the medians are printed.
func BenchmarkStart(b *testing.B) {
	begun := time.Now()
	file, err := figures.Open(text("bench.file"))
	if err != nil {
		b.Fatal(err)
	}
	all, names := cells(b, text("bench.cells"))
	rounds, minutes := number(b, "bench.rounds"), number(b, "bench.minutes")
	worlds := map[string]*world{}
	for {
		name, how, more := file.Next(names, rounds)
		if !more || minutes > 0 && time.Since(begun) > time.Duration(minutes)*time.Minute {
			break
		}
		c := all[slices.IndexFunc(all, func(c cell) bool { return c.String() == name })]
		w := worlds[name]
		if w == nil {
			w = newCell(b, c)
			worlds[name] = w
		}
		ways := c.ways()
		chosen := ways[slices.IndexFunc(ways, func(w way) bool { return w.name == how })]
		w.starts++
		took := w.start(fmt.Sprintf("s%d", w.starts), c, chosen).Seconds()
		fmt.Fprintf(os.Stderr, "%s %s: %.1f s\n", name, how, took)
		if err := file.Add(figures.Figure{Cell: name, Way: how, Seconds: took}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(0, "ns/op")
	fmt.Fprintf(os.Stderr, "\nFrom the kubelet's start to running pods:\n%s", file.Table(names))
}

// newCell makes the NodePools of a cell.
func newCell(b *testing.B, c cell) *world {
	b.Helper()
	w := newWorld(b, fmt.Sprintf("bench-%d", time.Now().UnixNano()))
	pool := func(name string, class string) {
		w.pool(name, func(p *karpv1.NodePool) {
			if c.network > 0 {
				p.Spec.Template.Labels[lateKey] = seconds(c.network)
			}
			p.Spec.Template.Spec.NodeClassRef.Name = class
		})
	}
	off := nodeClass(w.name+"-off", "")
	off.Annotations = map[string]string{catalog.PrefetchAnnotation: catalog.PrefetchOff}
	w.create(off)
	pool(w.name+"-on", "default")
	pool(w.name+"-off", off.Name)
	return w
}

// start has a node launched for pods and returns how long after its kubelet's start all of them run. The node is gone then.
func (w *world) start(name string, c cell, how way) time.Duration {
	w.t.Helper()
	image, pods := c.image, c.pods
	pool := w.name + "-on"
	if how.off {
		pool = w.name + "-off"
	}
	// Together they fill a node of four cores.
	spec := w.spec(fmt.Sprintf("%dm", 3400/pods), 0, func(s *corev1.PodSpec) {
		s.Containers[0].Image = fmt.Sprintf("example.com/%s/%s:1", w.name, image)
		s.NodeSelector[karpv1.NodePoolLabelKey] = pool
		s.TerminationGracePeriodSeconds = new(int64(1))
	})
	switch how.bound {
	case "auto":
		w.deployment(name, int32(pods), spec)
	case "scheduler":
		for i := range pods {
			w.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: fmt.Sprintf("%s-%d", name, i)}, Spec: *spec.DeepCopy()})
		}
	case "launch":
		w.bindAtLaunch(name, pods, pool, spec)
	}
	mine := func() []observe.Pod {
		return slices.DeleteFunc(w.pods(name+"-"), func(p observe.Pod) bool { return strings.HasPrefix(p.Object.Name, name+"-seed") })
	}
	w.await(w.t, "the pods to run", func() bool {
		ready := 0
		for _, p := range mine() {
			if p.Running.Seen() {
				ready++
			}
		}
		return ready == pods
	})
	var last time.Time
	nodes := map[string]bool{}
	for _, p := range mine() {
		nodes[p.Object.Spec.NodeName] = true
		if p.Running.At.After(last) {
			last = p.Running.At
		}
	}
	if len(nodes) != 1 {
		w.t.Fatalf("the pods run on %d nodes", len(nodes))
	}
	claim := w.claimOf(mine()[0].Object.Spec.NodeName)
	id := claim.Object.Status.ProviderID
	started, err := os.Stat(filepath.Join(w.Folder(), "machines", id[strings.LastIndexByte(id, '/')+1:], kubelet.StartedFile))
	if err != nil {
		w.t.Fatal(err)
	}
	w.clear(name, claim)
	return last.Sub(started.ModTime())
}

// bindAtLaunch binds pods before their kubelet boots, on a node that is launched for another pod.
func (w *world) bindAtLaunch(name string, pods int, pool string, spec corev1.PodSpec) {
	w.t.Helper()
	seed := *spec.DeepCopy()
	seed.Containers[0].Image = "example.com/seed:1"
	before := len(w.claims(pool))
	w.deployment(name+"-seed", 1, seed)
	spec.SchedulerName = "nobody"
	spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(1, resource.DecimalSI)
	var list []*corev1.Pod
	for i := range pods {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: fmt.Sprintf("%s-%d", name, i)}, Spec: *spec.DeepCopy()}
		w.create(pod)
		list = append(list, pod)
	}
	var node string
	w.await(w.t, "a Node", func() bool {
		claims := w.claims(pool)
		if len(claims) > before {
			node = claims[len(claims)-1].Object.Status.NodeName
		}
		return node != "" && w.node(node) != nil
	})
	for _, pod := range list {
		binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: node}}
		if err := w.client.SubResource("binding").Create(w.t.Context(), pod, binding); err != nil {
			w.t.Fatal(err)
		}
	}
}

// clear removes a round's pods and its node.
func (w *world) clear(name string, claim observe.Claim) {
	w.t.Helper()
	for _, d := range []string{name, name + "-seed"} {
		obj := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: d}}
		if err := client.IgnoreNotFound(w.client.Delete(w.t.Context(), obj)); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, p := range w.pods(name + "-") {
		if err := client.IgnoreNotFound(w.client.Delete(w.t.Context(), p.Object.DeepCopy())); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := client.IgnoreNotFound(w.client.Delete(w.t.Context(), claim.Object.DeepCopy())); err != nil {
		w.t.Fatal(err)
	}
	w.await(w.t, "the node to be gone", func() bool { return w.gone(claim) })
}
