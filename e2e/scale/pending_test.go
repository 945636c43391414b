package scale_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
	"github.com/slipway-k8s/slipway/e2e/sandbox"
	"github.com/slipway-k8s/slipway/e2e/scale/calls"
	"github.com/slipway-k8s/slipway/plugin/explain"
)

const (
	// limited is a NodePool whose limit is reached, open one that may launch.
	limited, open = "limited", "open"
	// managedNodes have room for small pods.
	managedNodes = 3
)

// pendingWorld has pods that fit nowhere, and small pods that come beside them.
type pendingWorld struct {
	*world
	pods int
	// small is the newest of the small pods, which has a node if it is bound; n is how many there were.
	small string
	n     int
}

// BenchmarkPending has many pods that fit nowhere, and prints what they cost and how long other pods wait.
func BenchmarkPending(b *testing.B) {
	for b.Loop() {
		pending(b, argument[int]("pods"), argument[float64]("speed"), argument[time.Duration]("rest"))
	}
}

// Pods that fit nowhere are reported once, disturb no pod that fits, and are found again by processes that start anew.
func TestPending(t *testing.T) {
	const pods = 300
	for _, s := range pending(t, pods, 20, 10*time.Second) {
		// Figures in messages are refreshed for 50 pods at once, then for five a second.
		most := (50 + 5*s.Took.Seconds()) / pods
		if s.Name == "arrival" {
			most++
		}
		if s.Name == "both processes end" {
			most += 2 // A launcher whose instance types are not loaded yet is a reason of its own, for as long as that takes.
		}
		if got := s.PerPod("pods/status", pods); got > most {
			t.Errorf("%s: %.2f writes of status a pod, at most %.2f are expected", s.Name, got, most)
		}
		if len(s.Bound) == 0 {
			t.Errorf("%s: no pod that fits was bound", s.Name)
		}
	}
}

func pending(tb testing.TB, pods int, speed float64, rest time.Duration) []calls.Stage {
	tb.Helper()
	w := &pendingWorld{world: newWorld(tb, managedNodes, speed), pods: pods}
	w.unfit = true
	w.Create(sandbox.NodeClass("default"))
	full := nodePool(limited)
	full.Spec.Limits = karpv1.Limits{corev1.ResourceCPU: resource.MustParse("4")}
	w.Create(full)
	w.pool(open)
	w.Create(deployment("first", 1, podSpec(3500, map[string]string{karpv1.NodePoolLabelKey: limited})))
	w.await("the only node of the limited NodePool", func(t tally) bool { return t.running == 1 && t.initialized == 1 })
	wait := func() {
		end := time.Now().Add(rest)
		w.beside("the rest to end", func() bool { return time.Now().After(end) })
	}
	var stages []calls.Stage
	stage := func(name string, do func()) {
		first := w.n
		s := w.stage(name, w.profiled(name, do))
		s.Bound = w.waited(first)
		tb.Logf("%d pods that fit nowhere:\n%s", pods, calls.PendingTable([]calls.Stage{s}, pods))
		stages = append(stages, s)
	}
	stage("arrival", func() {
		w.createUnfit()
		w.beside("all pods to have their conditions", func() bool { return w.told() == pods })
	})
	stage("rest", wait)
	stage("a node comes", func() {
		w.Create(deployment("last", 1, podSpec(3500, map[string]string{karpv1.NodePoolLabelKey: open})))
		w.await("a node of the open NodePool", func(t tally) bool { return t.nodes[open] == 1 && t.initialized == t.total() })
		wait()
	})
	stage("both processes end", func() {
		if err := syscall.Kill(w.PID(sandbox.Scheduler), syscall.SIGTERM); err != nil {
			tb.Fatal(err)
		}
		if err := w.Kill(sandbox.Launcher); err != nil {
			tb.Fatal(err)
		}
		wait()
	})
	tb.Logf("%d pods that fit nowhere:\n%s", pods, calls.PendingTable(stages, pods))
	for _, s := range stages {
		tb.Logf("requests during %s:\n%s", s.Name, calls.CallTable(s, 8, calls.Launcher, calls.Scheduler))
	}
	w.raise()
	return stages
}

// createUnfit creates the pods: a third asks for more than any machine has, a third for a label that no node has, and a third for the NodePool
// whose limit is reached.
func (w *pendingWorld) createUnfit() {
	w.b.Helper()
	for i := range parts * 3 {
		n := int32(w.pods*(i+1)/(parts*3) - w.pods*i/(parts*3))
		spec := podSpec(2500, map[string]string{karpv1.NodePoolLabelKey: limited})
		switch i % 3 {
		case 1:
			spec = podSpec(1_000_000, nil)
		case 2:
			spec = podSpec(100, map[string]string{"example.com/rack": deploymentName(i)})
		}
		w.Create(deployment(deploymentName(i), n, spec))
	}
}

func deployment(name string, n int32, spec corev1.PodSpec) *appsv1.Deployment {
	labels := map[string]string{"app": name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
	d.Spec.Replicas = &n
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: spec}
	return d
}

// told counts the pods whose condition says why no node is launched for them.
func (w *pendingWorld) told() int {
	n := 0
	for _, p := range w.Recorder.Pods() {
		if _, ok := explain.Read(p.Object); ok && !p.Deleted.Seen() {
			n++
		}
	}
	return n
}

// beside waits, and meanwhile has a small pod come as often as the last one has a node.
func (w *pendingWorld) beside(what string, done func() bool) {
	w.b.Helper()
	w.await(what, func(tally) bool {
		if p, ok := w.find(w.small); w.small == "" || ok && p.Bound.Seen() {
			if ok {
				if err := client.IgnoreNotFound(w.API.Delete(w.b.Context(), p.Object)); err != nil {
					w.b.Fatal(err)
				}
			}
			if done() {
				return true
			}
			w.small = smallName(w.n)
			w.n++
			w.Create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: w.small}, Spec: podSpec(10, nil)})
		}
		return false
	})
	w.await("the last small pod to be gone", func(tally) bool {
		p, ok := w.find(w.small)
		return !ok || p.Deleted.Seen()
	})
	w.small = ""
}

func smallName(n int) string { return fmt.Sprintf("small-%d", n) }

func (w *pendingWorld) find(name string) (observe.Pod, bool) {
	for _, p := range w.Recorder.Pods() {
		if p.Object.Name == name {
			return p, true
		}
	}
	return observe.Pod{}, false
}

// waited returns how long the small pods since the first one waited for their nodes, in seconds.
func (w *pendingWorld) waited(first int) []float64 {
	var out []float64
	for i := first; i < w.n; i++ {
		if p, ok := w.find(smallName(i)); ok && p.Bound.Seen() {
			out = append(out, p.Bound.At.Sub(p.Created.At).Seconds())
		}
	}
	return out
}

// raise lifts the limit by a node, which some of the pods get.
func (w *pendingWorld) raise() {
	w.b.Helper()
	before := w.look().running
	pool := w.get(limited)
	patch := client.MergeFrom(pool.DeepCopy())
	pool.Spec.Limits[corev1.ResourceCPU] = resource.MustParse("8")
	if err := w.API.Patch(w.b.Context(), pool, patch); err != nil {
		w.b.Fatal(err)
	}
	w.await("a pod to run where the limit was raised", func(t tally) bool { return t.running > before })
}
