package hooks_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/profile"
	st "k8s.io/kubernetes/pkg/scheduler/testing"
)

// upstream returns the real scheduler, with Kubernetes' own profile, and its informers.
func upstream(tb testing.TB, client *fake.Clientset) (*scheduler.Scheduler, informers.SharedInformerFactory) {
	tb.Helper()
	factory := scheduler.NewInformerFactory(client, 0)
	recorder := &events.FakeRecorder{}
	sched, err := scheduler.New(tb.Context(), client, factory, nil, profile.RecorderFactory(func(string) events.EventRecorderLogger { return recorder }))
	if err != nil {
		tb.Fatal(err)
	}
	return sched, factory
}

// begin fills the scheduler's caches, and returns when cycles may run.
func begin(tb testing.TB, sched *scheduler.Scheduler, factory informers.SharedInformerFactory) {
	tb.Helper()
	ctx, cancel := context.WithCancel(tb.Context())
	tb.Cleanup(func() {
		cancel()
		factory.Shutdown()
	})
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := sched.WaitForHandlersSync(ctx); err != nil {
		tb.Fatal(err)
	}
}

// The class cache builds on this of 1.36: a scheduling cycle brings the snapshot up to date before it calls SchedulePod. A node
// that came since the failure is seen by the next pod of the class, in the real scheduler's cycles.
func TestCyclesSeeWhatChangedBefore(t *testing.T) {
	room := map[corev1.ResourceName]string{corev1.ResourceCPU: "1", corev1.ResourceMemory: "1Gi", corev1.ResourcePods: "10"}
	node := func(name, cpu string) *corev1.Node {
		room[corev1.ResourceCPU] = cpu
		return st.MakeNode().Name(name).Capacity(room).Obj()
	}
	client := fake.NewClientset(node("full", "1"))
	sched, factory := upstream(t, client)
	tried, stock := 0, sched.SchedulePod
	sched.SchedulePod = func(ctx context.Context, fw framework.Framework, state fwk.CycleState, info *framework.QueuedPodInfo) (scheduler.ScheduleResult, error) {
		tried++
		return stock(ctx, fw, state, info)
	}
	install(t, sched, factory, &served{class: "a", collected: true})
	begin(t, sched, factory)
	ctx := t.Context()
	cycle := func(name string) int {
		t.Helper()
		pod := st.MakePod().Namespace("default").Name(name).UID(name).SchedulerName("default-scheduler").
			Req(map[corev1.ResourceName]string{corev1.ResourceCPU: "2"}).Obj()
		if _, err := client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		before := tried
		sched.ScheduleOne(ctx)
		return tried - before
	}
	if cycle("first") != 1 || cycle("second") != 0 {
		t.Fatal("the first pod was to be tried, the second one answered by its failure")
	}
	sched.Cache.AddNode(klog.Background(), node("empty", "4"))
	if cycle("third") != 1 {
		t.Fatal("the third pod was not tried though a node has come")
	}
	assumed, err := sched.Cache.IsAssumedPod(st.MakePod().Namespace("default").Name("third").UID("third").Obj())
	if err != nil || !assumed {
		t.Errorf("the third pod was not scheduled: %v", err)
	}
}

// A pod with required affinity is rejected in the name of the profile's plugin of affinity too: the queue wakes it when a pod comes that its terms match, whatever
// the nodes have rejected it for. One that is promised a node is woken by nothing.
func TestPodsWithAffinityAreWokenByOthers(t *testing.T) {
	for name, c := range map[string]struct {
		kind st.PodAffinityKind
		by   string
		want sets.Set[string]
	}{
		"required":           {st.PodAffinityWithRequiredReq, names.NodeResourcesFit, sets.New(names.NodeResourcesFit, names.InterPodAffinity)},
		"preferred":          {st.PodAffinityWithPreferredReq, names.NodeResourcesFit, sets.New(names.NodeResourcesFit)},
		"required, promised": {st.PodAffinityWithRequiredReq, "NodeLaunch", sets.New("NodeLaunch")},
	} {
		t.Run(name, func(t *testing.T) {
			pod := st.MakePod().Namespace("default").Name("a").UID("a").SchedulerName("default-scheduler").
				PodAffinityExists("app", corev1.LabelTopologyZone, c.kind).Obj()
			sched, factory := upstream(t, fake.NewClientset(pod))
			install(t, sched, factory, &served{collected: true, promised: c.by == "NodeLaunch"})
			begin(t, sched, factory)
			info, err := sched.SchedulingQueue.Pop(klog.Background())
			if err != nil {
				t.Fatal(err)
			}
			by := sets.New(c.by)
			fit := fwk.NewStatus(fwk.Unschedulable).WithError(&framework.FitError{Pod: pod, Diagnosis: framework.Diagnosis{
				NodeToStatus: framework.NewDefaultNodeToStatus(), UnschedulablePlugins: by,
			}})
			sched.FailureHandler(t.Context(), sched.Profiles["default-scheduler"], info, fit, nil, time.Now())
			if !info.UnschedulablePlugins.Equal(c.want) || len(by) != 1 {
				t.Errorf("rejected by %v, want %v; the verdict itself has %v", sets.List(info.UnschedulablePlugins), sets.List(c.want), sets.List(by))
			}
		})
	}
}
