package hooks_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
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
	// fits says that pods fit a node.
	fits bool
	told []string
}

func newClassWorld(t *testing.T) *classWorld {
	t.Helper()
	// The queue's recorder of metrics looks for its end once a second.
	t.Cleanup(func() { time.Sleep(2 * time.Second) })
	// The scheduler comes before the cache: it registers the metrics that the cache writes from a goroutine.
	sched, _, fw := newScheduler(t, pod("p1"), pod("p2"), pod("p3"), pod("other"))
	w := &classWorld{
		t: t, cache: internalcache.New(t.Context(), nil, false), snapshot: internalcache.NewEmptySnapshot(),
		plugin: &served{class: "a", collected: true}, rejector: "NodeResourcesFit", Scheduler: sched,
	}
	factory := fw.SharedInformerFactory()
	var err error
	w.fw, err = frameworkruntime.NewFramework(t.Context(), nil, nil, frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSnapshotSharedLister(w.snapshot))
	if err != nil {
		t.Fatal(err)
	}
	w.SchedulePod = func(_ context.Context, _ framework.Framework, _ fwk.CycleState, info *framework.QueuedPodInfo) (scheduler.ScheduleResult, error) {
		w.tried++
		if w.fits {
			return scheduler.ScheduleResult{SuggestedHost: "n1"}, nil
		}
		status := framework.NewDefaultNodeToStatus()
		status.Set("n1", fwk.NewStatus(fwk.Unschedulable, "Insufficient cpu").WithPlugin(w.rejector))
		return scheduler.ScheduleResult{}, &framework.FitError{Pod: info.Pod, NumAllNodes: 1, Diagnosis: framework.Diagnosis{
			NodeToStatus: status, UnschedulablePlugins: sets.New(w.rejector),
		}}
	}
	w.cache.AddNode(klog.Background(), st.MakeNode().Name("n1").Obj())
	install(t, w.Scheduler, factory, w.plugin)
	return w
}

func pod(name string) *corev1.Pod { return st.MakePod().Name(name).UID(name).Obj() }

// fails sends a pod through a failing cycle, as the scheduler does, and says whether it was tried on the nodes.
func (w *classWorld) fails(p *corev1.Pod, nominating *fwk.NominatingInfo) bool {
	w.t.Helper()
	info := popped(w.t, w.Scheduler, p)
	if err := w.cache.UpdateSnapshot(klog.Background(), w.snapshot); err != nil {
		w.t.Fatal(err)
	}
	before := w.tried
	state := framework.NewCycleState()
	_, err := w.SchedulePod(w.t.Context(), w.fw, state, info)
	if tried := w.tried > before; tried == state.ShouldSkipAllPostFilterPlugins() {
		w.t.Errorf("pod %s: tried %v, but its PostFilters are skipped %v", p.Name, tried, state.ShouldSkipAllPostFilterPlugins())
	}
	w.told = append(w.told, err.Error())
	w.FailureHandler(w.t.Context(), w.fw, info, fwk.NewStatus(fwk.Unschedulable).WithError(err), nominating, time.Now())
	return w.tried > before
}

// One failure speaks for its class, until anything changes that a filter looks at.
func TestOneFailureSpeaksForItsClass(t *testing.T) {
	log := klog.Background()
	for _, c := range []struct {
		name   string
		change func(*classWorld)
		// tried says that the second pod must be tried itself.
		tried bool
	}{
		{"nothing changes", func(*classWorld) {}, false},
		{"another class", func(w *classWorld) { w.plugin.class = "b" }, true},
		{"no class", func(w *classWorld) { w.plugin.class = "" }, true},
		{"a node more", func(w *classWorld) { w.cache.AddNode(log, st.MakeNode().Name("n2").Obj()) }, true},
		{"a node changes", func(w *classWorld) { w.cache.UpdateNode(log, nil, st.MakeNode().Name("n1").Label("a", "b").Obj()) }, true},
		{"a node less", func(w *classWorld) {
			if err := w.cache.RemoveNode(log, st.MakeNode().Name("n1").Obj()); err != nil {
				w.t.Fatal(err)
			}
		}, true},
		{"one node for another", func(w *classWorld) {
			if err := w.cache.RemoveNode(log, st.MakeNode().Name("n1").Obj()); err != nil {
				w.t.Fatal(err)
			}
			w.cache.AddNode(log, st.MakeNode().Name("n2").Obj())
		}, true},
		{"a pod comes onto a node", func(w *classWorld) {
			if err := w.cache.AddPod(log, st.MakePod().Name("x").UID("x").Node("n1").Obj()); err != nil {
				w.t.Fatal(err)
			}
		}, true},
		{"room is kept for another pod", func(w *classWorld) { w.nominate("other") }, false},
		{"a second passes", func(*classWorld) { time.Sleep(1100 * time.Millisecond) }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newClassWorld(t)
				if !w.fails(pod("p1"), nil) {
					t.Fatal("the first pod was not tried")
				}
				c.change(w)
				if got := w.fails(pod("p2"), nil); got != c.tried {
					t.Errorf("the second pod was tried: %v, want %v", got, c.tried)
				}
				if want := map[bool]int64{true: 0, false: 1}[c.tried]; w.plugin.repeats.Load() != want {
					t.Errorf("%d pods were collected without a try, want %d", w.plugin.repeats.Load(), want)
				}
				if got := len(w.SchedulingQueue.UnschedulablePods()); got != 2 {
					t.Errorf("%d pods are in the queue, want both", got)
				}
				if w.told[0] != w.told[1] || !strings.Contains(w.told[0], "0/1 nodes are available: 1 Insufficient cpu.") {
					t.Errorf("the pods were told %q", w.told)
				}
			})
		})
	}
}

// After a pod that fits, the next that fails counts for itself alone, and the one after it for its class: no pod that follows one that fits is
// held against the nominated pods of all nodes.
func TestFailureAfterSuccessCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newClassWorld(t)
		w.fits = true
		if _, err := w.SchedulePod(t.Context(), w.fw, framework.NewCycleState(), popped(t, w.Scheduler, pod("other"))); err != nil {
			t.Fatal(err)
		}
		w.fits = false
		for _, c := range []struct {
			pod   string
			tried bool
		}{{"p1", true}, {"p2", true}, {"p3", false}} {
			if got := w.fails(pod(c.pod), nil); got != c.tried {
				t.Errorf("pod %s was tried: %v, want %v", c.pod, got, c.tried)
			}
		}
	})
}

// The end of one pod's cycle takes nothing from the failure of another: a pod that waited at Permit may be handled while the next is tried.
func TestEndOfAnotherCycleLeavesTheFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newClassWorld(t)
		other, info := popped(t, w.Scheduler, pod("other")), popped(t, w.Scheduler, pod("p1"))
		err := w.schedule(info)
		denied := &framework.FitError{Pod: other.Pod, NumAllNodes: 1, Diagnosis: framework.Diagnosis{
			NodeToStatus: framework.NewDefaultNodeToStatus(), UnschedulablePlugins: sets.New("NodeLaunch"),
		}}
		w.FailureHandler(t.Context(), w.fw, other, fwk.NewStatus(fwk.Unschedulable).WithError(denied), nil, time.Now())
		w.FailureHandler(t.Context(), w.fw, info, fwk.NewStatus(fwk.Unschedulable).WithError(err), nil, time.Now())
		if w.fails(pod("p2"), nil) {
			t.Error("the second pod of the class was tried")
		}
	})
}

// A failure that did not count does not count later, in another state of the cluster.
func TestFailureOfAnEarlierCycle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newClassWorld(t)
		info := popped(t, w.Scheduler, pod("p1"))
		if err := w.schedule(info); err == nil {
			t.Fatal("the pod fits")
		}
		w.cache.AddNode(klog.Background(), st.MakeNode().Name("n2").Obj())
		w.rejector = "Custom"
		err := w.schedule(info)
		w.FailureHandler(t.Context(), w.fw, info, fwk.NewStatus(fwk.Unschedulable).WithError(err), nil, time.Now())
		w.rejector = "NodeResourcesFit"
		if !w.fails(pod("p2"), nil) {
			t.Error("the second pod was not tried")
		}
	})
}

// schedule tries the pod on the cluster as it is, and returns why it fits nowhere.
func (w *classWorld) schedule(info *framework.QueuedPodInfo) error {
	w.t.Helper()
	if err := w.cache.UpdateSnapshot(klog.Background(), w.snapshot); err != nil {
		w.t.Fatal(err)
	}
	_, err := w.SchedulePod(w.t.Context(), w.fw, framework.NewCycleState(), info)
	return err
}

func (w *classWorld) nominate(name string) {
	info, err := framework.NewPodInfo(pod(name))
	if err != nil {
		w.t.Fatal(err)
	}
	w.SchedulingQueue.AddNominatedPod(klog.Background(), info, &fwk.NominatingInfo{NominatedNodeName: "n1", NominatingMode: fwk.ModeOverride})
	if len(w.SchedulingQueue.NominatedPodsForNode("n1")) != 1 {
		w.t.Fatal("the pod was not nominated")
	}
}

// What a repeated failure leaves in the queue is woken by the same events as the first.
func TestRepeatedFailureWaitsForTheSameEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newClassWorld(t)
		w.fails(pod("p1"), nil)
		info := popped(t, w.Scheduler, pod("p2"))
		_, err := w.SchedulePod(t.Context(), w.fw, framework.NewCycleState(), info)
		w.FailureHandler(t.Context(), w.fw, info, fwk.NewStatus(fwk.Unschedulable).WithError(err), nil, time.Now())
		if !info.UnschedulablePlugins.Equal(sets.New("NodeResourcesFit")) {
			t.Errorf("the second pod waits for %v", info.UnschedulablePlugins)
		}
	})
}

// Failures that hold for one pod, or for one moment.
func TestFailuresThatSpeakForNobody(t *testing.T) {
	clears := &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride, NominatedNodeName: "n1"}
	for _, c := range []struct {
		name       string
		before     func(*classWorld)
		pod        *corev1.Pod
		nominating *fwk.NominatingInfo
	}{
		{name: "it preempts: the next must be able to", nominating: clears},
		{name: "it was not collected", before: func(w *classWorld) { w.plugin.collected = false }},
		{name: "slipway's own plugin keeps it off, and wakes each pod by itself", before: func(w *classWorld) { w.rejector = "NodeReserve" }},
		{name: "a plugin that is not Kubernetes' own", before: func(w *classWorld) { w.rejector = "Custom" }},
		{name: "an extender", before: func(w *classWorld) { w.rejector = framework.ExtenderName }},
		{name: "volumes", before: func(w *classWorld) { w.rejector = "VolumeBinding" }},
		{name: "the profile's own spread, which counts services' pods", before: func(w *classWorld) { w.rejector = "PodTopologySpread" }},
		{name: "room kept for a pod that may give it up", before: func(w *classWorld) { w.nominate("other") }},
		{
			name: "another pod may repel this one by its number", before: func(w *classWorld) { w.rejector = "InterPodAffinity" },
			pod: st.MakePod().Name("p1").UID("p1").Label("apps.kubernetes.io/pod-index", "0").Obj(),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newClassWorld(t)
				if c.before != nil {
					c.before(w)
				}
				if c.pod == nil {
					c.pod = pod("p1")
				}
				w.fails(c.pod, c.nominating)
				w.plugin.collected = true
				if !w.fails(pod("p2"), nil) {
					t.Error("the second pod was not tried")
				}
			})
		})
	}
}
