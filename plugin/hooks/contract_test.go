package hooks_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	internalqueue "k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	schedulermetrics "k8s.io/kubernetes/pkg/scheduler/metrics"
	st "k8s.io/kubernetes/pkg/scheduler/testing"

	"github.com/slipway-k8s/slipway/plugin/hooks"
)

// The fields that the hooks replace, with the types that they have in 1.36. If this does not compile against another
// minor version, read what changed there before changing this.
var (
	_ func(klog.Logger) (*framework.QueuedPodInfo, error)                                                                    = scheduler.Scheduler{}.NextPod
	_ func(context.Context, framework.Framework, fwk.CycleState, *framework.QueuedPodInfo) (scheduler.ScheduleResult, error) = scheduler.Scheduler{}.SchedulePod
	_ func(context.Context, framework.Framework, *framework.QueuedPodInfo, *fwk.Status, *fwk.NominatingInfo, time.Time)      = scheduler.Scheduler{}.FailureHandler
	_ internalqueue.SchedulingQueue                                                                                          = scheduler.Scheduler{}.SchedulingQueue
)

// served is a plugin whose answers the test sets.
type served struct {
	promised, collected, waiting, reserved bool
	begin                                  func()
	panics, class, place                   string

	drained, noNodes, tripped, repeats, preempts, hinted atomic.Int64
}

func (s *served) boom(hook string) {
	if s.panics == hook {
		panic("injected")
	}
}

func (s *served) Begin() {
	if s.begin != nil {
		s.begin()
	}
}
func (s *served) Waiting() bool { s.boom(hooks.NextPod); return s.waiting }
func (s *served) Drained()      { s.drained.Add(1) }
func (s *served) Promised(*corev1.Pod) (string, bool) {
	s.boom(hooks.SchedulePod)
	return "waits for its node", s.promised
}
func (s *served) NoNodes(*corev1.Pod)              { s.noNodes.Add(1) }
func (s *served) Class(*corev1.Pod) (string, bool) { return s.class, s.class != "" }
func (s *served) Repeats(*corev1.Pod) bool         { s.repeats.Add(1); return true }
func (s *served) Collected(*corev1.Pod, string) bool {
	s.boom(hooks.FailureHandler)
	return s.collected
}
func (s *served) Preempts(types.UID)        { s.preempts.Add(1) }
func (s *served) Place(types.UID) string    { return s.place }
func (s *served) Serves(string) bool        { return true }
func (s *served) Ordinary(*corev1.Pod) bool { return !s.reserved }
func (s *served) Hinted()                   { s.hinted.Add(1) }
func (s *served) Tripped(string, any)       { s.tripped.Add(1) }

// stock counts what is delegated.
type stock struct {
	next, schedule, fail int
	// nominated is what the last failure nominates.
	nominated *fwk.NominatingInfo
}

func newScheduler(t *testing.T, pods ...*corev1.Pod) (*scheduler.Scheduler, *stock, framework.Framework) {
	t.Helper()
	schedulermetrics.Register()
	client := fake.NewClientset()
	for _, p := range pods {
		if err := client.Tracker().Add(p); err != nil {
			t.Fatal(err)
		}
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	fw, err := frameworkruntime.NewFramework(t.Context(), nil, nil, frameworkruntime.WithInformerFactory(factory))
	if err != nil {
		t.Fatal(err)
	}
	recorder := schedulermetrics.NewMetricsAsyncRecorder(10, time.Second, t.Context().Done())
	queue := internalqueue.NewTestQueueWithInformerFactory(t.Context(), func(fwk.QueuedPodInfo, fwk.QueuedPodInfo) bool { return false },
		factory, internalqueue.WithMetricsRecorder(recorder))
	s := &stock{}
	return &scheduler.Scheduler{
		SchedulingQueue: queue,
		NextPod: func(klog.Logger) (*framework.QueuedPodInfo, error) {
			s.next++
			return nil, nil
		},
		SchedulePod: func(context.Context, framework.Framework, fwk.CycleState, *framework.QueuedPodInfo) (scheduler.ScheduleResult, error) {
			s.schedule++
			return scheduler.ScheduleResult{}, scheduler.ErrNoNodesAvailable
		},
		FailureHandler: func(_ context.Context, _ framework.Framework, _ *framework.QueuedPodInfo, _ *fwk.Status, n *fwk.NominatingInfo, _ time.Time) {
			s.fail++
			s.nominated = n
		},
	}, s, fw
}

func install(t *testing.T, sched *scheduler.Scheduler, f informers.SharedInformerFactory, p hooks.Plugin) {
	t.Helper()
	if err := hooks.Install(hooks.Config{Scheduler: sched, Plugin: p, Pods: f.Core().V1().Pods().Lister(), Rejector: "NodeLaunch", Waker: "NodeReserve"}); err != nil {
		t.Fatal(err)
	}
}

// popped puts the pod into the queue and takes it out, as a scheduling cycle begins.
func popped(t *testing.T, sched *scheduler.Scheduler, pod *corev1.Pod) *framework.QueuedPodInfo {
	t.Helper()
	sched.SchedulingQueue.Add(t.Context(), pod)
	info, err := sched.SchedulingQueue.Pop(klog.Background())
	if err != nil {
		t.Fatal(err)
	}
	return info
}

// A promised pod is rejected in slipway's name, and no PostFilter runs for it.
func TestPromisedPodIsRejected(t *testing.T) {
	pod := st.MakePod().Name("a").UID("a").Obj()
	sched, delegated, fw := newScheduler(t, pod)
	install(t, sched, fw.SharedInformerFactory(), &served{promised: true})
	state := framework.NewCycleState()
	info := popped(t, sched, pod)
	_, err := sched.SchedulePod(t.Context(), fw, state, info)
	var fit *framework.FitError
	if !errors.As(err, &fit) || !fit.Diagnosis.UnschedulablePlugins.Equal(sets.New("NodeLaunch")) || delegated.schedule != 0 {
		t.Fatalf("error %v, delegated %d times", err, delegated.schedule)
	}
	if !state.ShouldSkipAllPostFilterPlugins() {
		t.Error("DefaultPreemption would clear the pod's nomination")
	}
	sched.FailureHandler(t.Context(), fw, info, fwk.NewStatus(fwk.Unschedulable).WithError(err), nil, time.Now())
	if delegated.fail != 0 || len(sched.SchedulingQueue.UnschedulablePods()) != 1 {
		t.Errorf("delegated %d times, %d pods in the queue", delegated.fail, len(sched.SchedulingQueue.UnschedulablePods()))
	}
}

// A promised pod whose binding fails keeps its room on its node, as the launcher may have bound it. One that fits no node has none.
func TestRefusedBindingNominates(t *testing.T) {
	clear := &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride}
	for name, c := range map[string]struct {
		place  string
		status *fwk.Status
		want   string
	}{
		"refused":           {"n", fwk.AsStatus(errors.New("it is already assigned to a node")), "n"},
		"not promised":      {"", fwk.AsStatus(errors.New("it is already assigned to a node")), ""},
		"it fits no longer": {"n", fwk.NewStatus(fwk.Unschedulable), ""},
	} {
		pod := st.MakePod().Name("a").UID("a").Obj()
		sched, delegated, fw := newScheduler(t, pod)
		install(t, sched, fw.SharedInformerFactory(), &served{place: c.place})
		sched.FailureHandler(t.Context(), fw, popped(t, sched, pod), c.status, clear, time.Now())
		if delegated.fail != 1 || delegated.nominated.Mode() != fwk.ModeOverride || delegated.nominated.NominatedNodeName != c.want {
			t.Errorf("%s: delegated %d times, nominated %+v, want %q", name, delegated.fail, delegated.nominated, c.want)
		}
	}
}

// A pod that fits no node has no room on the node that it was nominated to in memory: others get it. One that is promised a node keeps its room there,
// and so does one that waits for its victims to end.
func TestNominationInMemoryEnds(t *testing.T) {
	clear := framework.NewPostFilterResultWithNominatedNode("").NominatingInfo
	for name, c := range map[string]struct {
		place, status string
		nominating    *fwk.NominatingInfo
		left          int
	}{
		"failed":            {"", "", nil, 0},
		"failed, preempted": {"", "", clear, 0},
		"promised":          {"n", "", nil, 1},
		"waits for victims": {"", "n", nil, 1},
	} {
		pod := st.MakePod().Name("a").UID("a").NominatedNodeName(c.status).Obj()
		sched, delegated, fw := newScheduler(t, pod)
		install(t, sched, fw.SharedInformerFactory(), &served{collected: true, place: c.place})
		info := popped(t, sched, pod)
		sched.SchedulingQueue.AddNominatedPod(klog.Background(), info.PodInfo, &fwk.NominatingInfo{NominatedNodeName: "n", NominatingMode: fwk.ModeOverride})
		fit := fwk.NewStatus(fwk.Unschedulable).WithError(&framework.FitError{Pod: pod, Diagnosis: framework.Diagnosis{
			NodeToStatus: framework.NewDefaultNodeToStatus(), UnschedulablePlugins: sets.New("NodeResourcesFit"),
		}})
		sched.FailureHandler(t.Context(), fw, info, fit, c.nominating, time.Now())
		if left := len(sched.SchedulingQueue.NominatedPodsForNode("n")); left != c.left || delegated.fail != 0 {
			t.Errorf("%s: %d pods are nominated to the node, want %d; delegated %d times", name, left, c.left, delegated.fail)
		}
	}
}

// A pod in a cluster without nodes waits for a Node event, not for the error backoff.
func TestNoNodes(t *testing.T) {
	pod := st.MakePod().Name("a").UID("a").Obj()
	sched, delegated, fw := newScheduler(t, pod)
	p := &served{collected: true}
	install(t, sched, fw.SharedInformerFactory(), p)
	info := popped(t, sched, pod)
	_, err := sched.SchedulePod(t.Context(), fw, framework.NewCycleState(), info)
	if !errors.Is(err, scheduler.ErrNoNodesAvailable) || p.noNodes.Load() != 1 {
		t.Fatalf("error %v, told %d times", err, p.noNodes.Load())
	}
	sched.FailureHandler(t.Context(), fw, info, fwk.NewStatus(fwk.UnschedulableAndUnresolvable).WithError(err), &fwk.NominatingInfo{NominatingMode: fwk.ModeOverride}, time.Now())
	if delegated.fail != 0 || !info.UnschedulablePlugins.Has("NodeReserve") {
		t.Errorf("delegated %d times, rejected by %v", delegated.fail, info.UnschedulablePlugins)
	}
}

// What is not slipway's is the stock handler's; pods that are gone or bound do not come back.
func TestFailuresThatAreDelegated(t *testing.T) {
	pod := st.MakePod().Name("a").UID("a").Obj()
	bound := st.MakePod().Name("b").UID("b").Node("n").Obj()
	nominated := st.MakePod().Name("c").UID("c").NominatedNodeName("n").Obj()
	fit := func(p *corev1.Pod) *fwk.Status {
		return fwk.NewStatus(fwk.Unschedulable).WithError(&framework.FitError{Pod: p, Diagnosis: framework.Diagnosis{
			NodeToStatus: framework.NewDefaultNodeToStatus(), UnschedulablePlugins: sets.New("NodeResourcesFit"),
		}})
	}
	for _, tc := range []struct {
		name       string
		collected  bool
		pod        *corev1.Pod
		status     *fwk.Status
		nominating *fwk.NominatingInfo
		delegated  int
		queued     int
		preempts   int64
	}{
		{"an error", true, pod, fwk.AsStatus(errors.New("x")), nil, 1, 0, 0},
		{"not collected", false, pod, fit(pod), nil, 1, 0, 0},
		{"nominated", true, pod, fit(pod), framework.NewPostFilterResultWithNominatedNode("n").NominatingInfo, 1, 0, 1},
		{"nominated to the node that it names already", true, nominated, fit(nominated), framework.NewPostFilterResultWithNominatedNode("n").NominatingInfo, 1, 0, 1},
		{"nomination that ends", true, nominated, fit(nominated), framework.NewPostFilterResultWithNominatedNode("").NominatingInfo, 1, 0, 0},
		{"nomination that stays", true, nominated, fit(nominated), nil, 0, 1, 0},
		{"collected", true, pod, fit(pod), nil, 0, 1, 0},
		{"nomination that is empty before and after", true, pod, fit(pod), framework.NewPostFilterResultWithNominatedNode("").NominatingInfo, 0, 1, 0},
		{"bound meanwhile", true, bound, fit(bound), nil, 0, 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			sched, delegated, fw := newScheduler(t, pod, bound, nominated)
			p := &served{collected: tc.collected}
			install(t, sched, fw.SharedInformerFactory(), p)
			sched.FailureHandler(t.Context(), fw, popped(t, sched, tc.pod), tc.status, tc.nominating, time.Now())
			if delegated.fail != tc.delegated || len(sched.SchedulingQueue.UnschedulablePods()) != tc.queued {
				t.Errorf("delegated %d times, %d pods queued", delegated.fail, len(sched.SchedulingQueue.UnschedulablePods()))
			}
			if got := p.preempts.Load(); got != tc.preempts {
				t.Errorf("forgotten as one that preempts %d times, want %d", got, tc.preempts)
			}
		})
	}
}

// The drained signal comes when nothing is left to try, and only then.
func TestDrained(t *testing.T) {
	pod := st.MakePod().Name("a").UID("a").Obj()
	sched, delegated, fw := newScheduler(t)
	p := &served{waiting: true}
	begun := 0
	p.begin = func() {
		if begun++; delegated.next != begun-1 {
			t.Errorf("a pod was taken before the plugin let the cycle begin")
		}
	}
	install(t, sched, fw.SharedInformerFactory(), p)
	sched.SchedulingQueue.Add(t.Context(), pod)
	for range 2 {
		if _, err := sched.NextPod(klog.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if p.drained.Load() != 0 {
		t.Error("the queue is not empty")
	}
	sched.SchedulingQueue.Delete(pod)
	if _, err := sched.NextPod(klog.Background()); err != nil {
		t.Fatal(err)
	}
	if p.drained.Load() != 1 || delegated.next != 3 || begun != 3 {
		t.Errorf("drained %d times, delegated %d times", p.drained.Load(), delegated.next)
	}
}

// movingQueue has one pod, whose backoff ends as soon as one of its lists was read.
type movingQueue struct {
	internalqueue.SchedulingQueue
	pod   *corev1.Pod
	moved bool
}

func (q *movingQueue) PodsInBackoffQ() []*corev1.Pod { return q.read(!q.moved) }

func (q *movingQueue) PodsInActiveQ() []*corev1.Pod { return q.read(q.moved) }

func (q *movingQueue) read(has bool) (out []*corev1.Pod) {
	if q.moved = true; has {
		out = []*corev1.Pod{q.pod}
	}
	return out
}

// A pod whose backoff ends while the lists are read is left to try.
func TestNotDrainedWhileABackoffEnds(t *testing.T) {
	sched, _, fw := newScheduler(t)
	sched.SchedulingQueue = &movingQueue{SchedulingQueue: sched.SchedulingQueue, pod: st.MakePod().Name("a").UID("a").Obj()}
	p := &served{waiting: true}
	install(t, sched, fw.SharedInformerFactory(), p)
	if _, err := sched.NextPod(klog.Background()); err != nil {
		t.Fatal(err)
	}
	if p.drained.Load() != 0 {
		t.Error("the queue is not empty")
	}
}

// A hook that panics only delegates from then on.
func TestTrippedHooksDelegate(t *testing.T) {
	for _, hook := range []string{hooks.NextPod, hooks.SchedulePod, hooks.FailureHandler} {
		t.Run(hook, func(t *testing.T) {
			pod := st.MakePod().Name("a").UID("a").Obj()
			sched, delegated, fw := newScheduler(t, pod)
			p := &served{panics: hook, collected: true, waiting: true}
			install(t, sched, fw.SharedInformerFactory(), p)
			info := popped(t, sched, pod)
			for range 3 {
				if _, err := sched.NextPod(klog.Background()); err != nil {
					t.Fatal(err)
				}
				if _, err := sched.SchedulePod(t.Context(), fw, framework.NewCycleState(), info); err == nil {
					t.Fatal("scheduled")
				}
				if hook == hooks.FailureHandler {
					sched.FailureHandler(t.Context(), fw, info, fwk.NewStatus(fwk.UnschedulableAndUnresolvable).WithError(scheduler.ErrNoNodesAvailable), nil, time.Now())
				}
			}
			if p.tripped.Load() != 1 {
				t.Errorf("tripped %d times in a row, want once", p.tripped.Load())
			}
			if delegated.next != 3 || delegated.schedule != 3 || hook == hooks.FailureHandler && delegated.fail != 3 {
				t.Errorf("delegated %+v", *delegated)
			}
		})
	}
}

func ExampleInstall() {
	fmt.Println(hooks.Install(hooks.Config{}))
	// Output: hooks: Scheduler, Plugin, Pods, Rejector and Waker are required
}
