// Package incrementaltest holds plugins against those of Kubernetes whose answers they give, in a cluster that changes by chance. It is for tests.
package incrementaltest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
)

// T is a test or a benchmark.
type T interface {
	// Context ends with the test.
	Context() context.Context
	// Helper marks the caller as none that a failure is about.
	Helper()
	// Fatal ends the test.
	Fatal(args ...any)
}

// World is a scheduler's cache that a test changes, with the handle for plugins over its snapshot.
type World struct {
	// Random decides what Step does.
	Random *rand.Rand
	// Informers have the namespaces a and b, and nothing else.
	Informers informers.SharedInformerFactory
	// Handle is for the factories of plugins.
	Handle fwk.Handle
	// Pod returns a pod of one of some classes, with a name of its own (Name).
	Pod func() *corev1.Pod

	t        T
	cache    internalcache.Cache
	snapshot *internalcache.Snapshot
	nodes    []*corev1.Node
	pods     []*corev1.Pod
	made     int
	// grouped means that cycles are those of a pod group.
	grouped bool
	// differed counts the answers that were remembered wrongly.
	differed int
}

// New returns a world without nodes.
func New(t T, seed uint64) *World {
	t.Helper()
	metrics.Register()
	w := &World{
		t: t, cache: internalcache.New(t.Context(), nil, false), snapshot: internalcache.NewEmptySnapshot(),
		Random: rand.New(rand.NewPCG(seed, 1)), Informers: informers.NewSharedInformerFactory(fake.NewClientset(), 0),
	}
	for _, name := range []string{"a", "b"} {
		w.Label(name, "1")
	}
	var err error
	w.Handle, err = frameworkruntime.NewFramework(t.Context(), nil, nil, frameworkruntime.WithInformerFactory(w.Informers),
		frameworkruntime.WithSnapshotSharedLister(w.snapshot))
	w.check(err)
	return w
}

// Tripped ends the test: a plugin has found that it remembers what is wrong, or has panicked.
func (w *World) Tripped(name string, cause any) {
	w.t.Helper()
	w.t.Fatal(name, cause)
}

func (w *World) check(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// Name returns a name that nothing else has.
func (w *World) Name(of string) string {
	w.made++
	return fmt.Sprint(of, w.made)
}

// Label gives the namespace another label, and a version of its own.
func (w *World) Label(name, team string) {
	w.t.Helper()
	w.made++
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: fmt.Sprint(w.made), Labels: map[string]string{"team": team}}}
	w.check(w.Informers.Core().V1().Namespaces().Informer().GetStore().Add(ns))
}

// AddNode adds a node with labels of its own; it has no zone where that is empty.
func (w *World) AddNode(zone, pool string) *corev1.Node {
	w.t.Helper()
	name := w.Name("n")
	made := st.MakeNode().Name(name).Label(corev1.LabelHostname, name).Label("pool", pool)
	if zone != "" {
		made = made.Label(corev1.LabelTopologyZone, zone)
	}
	w.nodes = append(w.nodes, made.Obj())
	w.cache.AddNode(klog.Background(), made.Obj())
	return made.Obj()
}

// AddPod puts a pod on a node.
func (w *World) AddPod(pod *corev1.Pod, node string) {
	w.t.Helper()
	pod.Spec.NodeName = node
	w.check(w.cache.AddPod(klog.Background(), pod))
	w.pods = append(w.pods, pod)
}

// removeNode removes a node, and then its pods.
func (w *World) removeNode(i int) {
	w.t.Helper()
	node := w.nodes[i]
	w.check(w.cache.RemoveNode(klog.Background(), node))
	w.nodes = slices.Delete(w.nodes, i, i+1)
	w.pods = slices.DeleteFunc(w.pods, func(pod *corev1.Pod) bool {
		if pod.Spec.NodeName != node.Name {
			return false
		}
		w.check(w.cache.RemovePod(klog.Background(), pod))
		return true
	})
}

func (w *World) zone() string { return []string{"1", "2", "3", "4", ""}[w.Random.IntN(5)] }

// Step changes one thing: a node, a pod on one, or a namespace.
func (w *World) Step() {
	w.t.Helper()
	log := klog.Background()
	switch n := w.Random.IntN(25); {
	case len(w.nodes) < 3 || n == 0:
		w.AddNode(w.zone(), fmt.Sprint(w.Random.IntN(2)))
	case n == 1:
		i := w.Random.IntN(len(w.nodes))
		changed := w.nodes[i].DeepCopy()
		changed.Labels[corev1.LabelTopologyZone] = w.zone()
		w.cache.UpdateNode(log, w.nodes[i], changed)
		w.nodes[i] = changed
	case n == 2:
		w.Label([]string{"a", "b"}[w.Random.IntN(2)], fmt.Sprint(w.Random.IntN(2)))
	case n == 3 && len(w.nodes) > 5:
		i := w.Random.IntN(len(w.nodes))
		changed := w.nodes[i].DeepCopy()
		changed.Spec.Taints = []corev1.Taint{{Key: "t", Effect: []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule}[w.Random.IntN(2)]}}
		w.cache.UpdateNode(log, w.nodes[i], changed)
		w.nodes[i] = changed
	case n == 4 && len(w.nodes) > 5:
		w.removeNode(w.Random.IntN(len(w.nodes)))
	case n < 9 && len(w.pods) > 0:
		i := w.Random.IntN(len(w.pods))
		w.check(w.cache.RemovePod(log, w.pods[i]))
		w.pods = slices.Delete(w.pods, i, i+1)
	case n < 12 && len(w.pods) > 0:
		i := w.Random.IntN(len(w.pods))
		changed := w.pods[i].DeepCopy()
		changed.Labels["app"] = []string{"x", "y"}[w.Random.IntN(2)]
		if w.Random.IntN(3) == 0 {
			changed.DeletionTimestamp = new(metav1.Now())
		}
		w.check(w.cache.UpdatePod(log, w.pods[i], changed))
		w.pods[i] = changed
	default:
		w.AddPod(w.Pod(), w.nodes[w.Random.IntN(len(w.nodes))].Name)
	}
}

// Nodes returns those of the cluster as it is now, as a scheduling cycle sees them.
func (w *World) Nodes() []fwk.NodeInfo {
	w.t.Helper()
	if !w.grouped { // The pods of a group are tried in one snapshot.
		w.check(w.cache.UpdateSnapshot(klog.Background(), w.snapshot))
	}
	nodes, err := w.snapshot.NodeInfos().List()
	w.check(err)
	return nodes
}

// InGroup has a pod be assumed on a node in the snapshot alone, as the scheduler does while it tries the pods of a group, calls do, and forgets the pod.
// It does nothing in a world without nodes.
func (w *World) InGroup(pod *corev1.Pod, do func()) {
	w.t.Helper()
	nodes := w.Nodes()
	if len(nodes) == 0 {
		return
	}
	pod = pod.DeepCopy()
	pod.Spec.NodeName = nodes[w.Random.IntN(len(nodes))].Node().Name
	info, err := framework.NewPodInfo(pod)
	w.check(err)
	w.check(w.snapshot.AssumePod(info))
	w.grouped = true
	do()
	w.grouped = false
	w.check(w.snapshot.ForgetPod(klog.Background(), pod))
}
