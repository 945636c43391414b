package hooks_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
)

// classWorld is a scheduler whose pods fit nowhere, over a cache that the test changes.
type classWorld struct {
	*scheduler.Scheduler
	t        *testing.T
	fw       framework.Framework
	cache    internalcache.Cache
	snapshot *internalcache.Snapshot
	plugin   *served
	rejector string
	tried    int
}

func newClassWorld(t *testing.T) *classWorld {
	t.Helper()
	w := &classWorld{
		t: t, cache: internalcache.New(t.Context(), nil, false), snapshot: internalcache.NewEmptySnapshot(),
		plugin: &served{class: "a", collected: true}, rejector: "NodeResourcesFit",
	}
	var pods []*corev1.Pod
	for _, name := range []string{"p1", "p2", "p3"} {
		pods = append(pods, pod(name))
	}
	sched, _, _ := newScheduler(t, pods...)
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	for _, p := range pods {
		if err := factory.Core().V1().Pods().Informer().GetStore().Add(p); err != nil {
			t.Fatal(err)
		}
	}
	fw, err := frameworkruntime.NewFramework(t.Context(), nil, nil, frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSnapshotSharedLister(w.snapshot))
	if err != nil {
		t.Fatal(err)
	}
	sched.SchedulePod = func(_ context.Context, _ framework.Framework, _ fwk.CycleState, info *framework.QueuedPodInfo) (scheduler.ScheduleResult, error) {
		w.tried++
		return scheduler.ScheduleResult{}, &framework.FitError{Pod: info.Pod, NumAllNodes: 1, Diagnosis: framework.Diagnosis{
			NodeToStatus: framework.NewDefaultNodeToStatus(), UnschedulablePlugins: sets.New(w.rejector),
		}}
	}
	w.Scheduler, w.fw = sched, fw
	w.cache.AddNode(klog.Background(), st.MakeNode().Name("n1").Obj())
	install(t, sched, w.plugin)
	return w
}

func pod(name string) *corev1.Pod { return st.MakePod().Name(name).UID(name).Obj() }

// fails sends a pod through a failing cycle, and says whether it was tried on the nodes.
func (w *classWorld) fails(name string, nominating *fwk.NominatingInfo) bool {
	w.t.Helper()
	if err := w.cache.UpdateSnapshot(klog.Background(), w.snapshot); err != nil {
		w.t.Fatal(err)
	}
	before := w.tried
	info, state := popped(w.t, w.Scheduler, pod(name)), framework.NewCycleState()
	_, err := w.SchedulePod(w.t.Context(), w.fw, state, info)
	if tried := w.tried > before; tried == state.ShouldSkipAllPostFilterPlugins() {
		w.t.Errorf("pod %s: tried %v, but its PostFilters are skipped %v", name, tried, state.ShouldSkipAllPostFilterPlugins())
	}
	w.FailureHandler(w.t.Context(), w.fw, info, fwk.NewStatus(fwk.Unschedulable).WithError(err), nominating, time.Now())
	return w.tried > before
}

// One failure speaks for its class, until a node or a pod on one changes.
func TestOneFailureSpeaksForItsClass(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*classWorld)
		// tried says that the second pod must be tried itself.
		tried bool
	}{
		{"nothing changes", func(*classWorld) {}, false},
		{"another class", func(w *classWorld) { w.plugin.class = "b" }, true},
		{"no class", func(w *classWorld) { w.plugin.class = "" }, true},
		{"a node more", func(w *classWorld) { w.cache.AddNode(klog.Background(), st.MakeNode().Name("n2").Obj()) }, true},
		{"a node changes", func(w *classWorld) {
			w.cache.UpdateNode(klog.Background(), nil, st.MakeNode().Name("n1").Label("a", "b").Obj())
		}, true},
		{"a node less", func(w *classWorld) {
			if err := w.cache.RemoveNode(klog.Background(), st.MakeNode().Name("n1").Obj()); err != nil {
				w.t.Fatal(err)
			}
		}, true},
		{"a pod comes onto a node", func(w *classWorld) {
			if err := w.cache.AddPod(klog.Background(), st.MakePod().Name("x").UID("x").Node("n1").Obj()); err != nil {
				w.t.Fatal(err)
			}
		}, true},
		{"a second passes", func(*classWorld) { time.Sleep(1100 * time.Millisecond) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newClassWorld(t)
			if !w.fails("p1", nil) {
				t.Fatal("the first pod was not tried")
			}
			c.change(w)
			if got := w.fails("p2", nil); got != c.tried {
				t.Errorf("the second pod was tried: %v, want %v", got, c.tried)
			}
			if want := map[bool]int64{true: 0, false: 1}[c.tried]; w.plugin.repeats.Load() != want {
				t.Errorf("%d pods were collected without a try, want %d", w.plugin.repeats.Load(), want)
			}
			if got := len(w.SchedulingQueue.UnschedulablePods()); got != 2 {
				t.Errorf("%d pods are in the queue, want both", got)
			}
		})
	}
}

// A failure does not speak for others where the pod preempts, is not slipway's, or is kept off by the plugin that wakes each
// of its pods by itself.
func TestFailuresThatSpeakForNobody(t *testing.T) {
	w := newClassWorld(t)
	w.fails("p1", &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: "n1"})
	if !w.fails("p2", nil) {
		t.Error("the first pod preempts; the second must be able to")
	}
	w = newClassWorld(t)
	w.plugin.collected = false
	w.fails("p1", nil)
	if w.plugin.collected = true; !w.fails("p2", nil) {
		t.Error("the first pod was not collected")
	}
	w = newClassWorld(t)
	w.rejector = "NodeReserve"
	w.fails("p1", nil)
	if !w.fails("p2", nil) {
		t.Error("NodeReserve must see each pod that it keeps off")
	}
}
