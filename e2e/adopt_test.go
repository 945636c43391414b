package e2e_test

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	configlatest "k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	"k8s.io/kubernetes/pkg/scheduler/profile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// theirScheduler is the name of the cluster's own scheduler in TestAdopt; the sandbox's NodeLaunch adopts its pods.
const theirScheduler = "theirs"

// Pods of a stock kube-scheduler that finds no node for them get nodes without a change of theirs: those of a Deployment are
// bound by the launcher, a pod without a controller by its own scheduler, in the slot that was kept for it.
func TestAdopt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "adopt")
	// One type that has room for all pods: a second plan finds room on the node of the first one, however the pods came.
	w.pool("adopt", func(p *karpv1.NodePool) { onlyTypes(p, "m6i.4xlarge") })
	w.stockScheduler()
	adopted := func(s *corev1.PodSpec) { s.SchedulerName = theirScheduler }
	w.deployment("web", 6, w.podSpec("1", "1Gi", adopted))
	w.create(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: "bare"}, Spec: w.podSpec("1", "1Gi", adopted)})
	w.awaitRunning(7)
	for _, p := range w.pods() {
		if p.Object.Spec.SchedulerName != theirScheduler {
			t.Errorf("pod %s is %s's", p.Object.Name, p.Object.Spec.SchedulerName)
		}
		if p.Failed.Seen() {
			t.Errorf("pod %s failed: %s %s", p.Object.Name, p.Object.Status.Reason, p.Object.Status.Message)
		}
	}
	nodes := map[string]bool{}
	for _, p := range w.pods() {
		nodes[p.Object.Spec.NodeName] = true
	}
	if claims := len(w.claimsOf("adopt")); claims > len(nodes) {
		t.Errorf("%d nodes were launched and %d are used", claims, len(nodes))
	}
	bound := map[string]bool{}
	w.await(t, "the Events of the launcher's bindings", func() bool {
		for _, e := range w.events("PreBound") {
			bound[e.InvolvedObject.Name] = true
		}
		return len(bound) >= 6
	})
	if len(bound) != 6 || bound["bare"] {
		t.Errorf("the launcher bound %v, not the six of the Deployment", bound)
	}
}

// stockScheduler runs Kubernetes' own scheduler, with its defaults and another name.
func (w *world) stockScheduler() {
	w.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	client, err := kubernetes.NewForConfig(rest.CopyConfig(w.RESTConfig()))
	if err != nil {
		w.t.Fatal(err)
	}
	defaults, err := configlatest.Default()
	if err != nil {
		w.t.Fatal(err)
	}
	profiles := []config.KubeSchedulerProfile{*defaults.Profiles[0].DeepCopy()}
	profiles[0].SchedulerName = theirScheduler
	informers := scheduler.NewInformerFactory(client, 0)
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	broadcaster.StartRecordingToSink(ctx.Done())
	stock, err := scheduler.New(ctx, client, informers, nil, profile.NewRecorderFactory(broadcaster), scheduler.WithProfiles(profiles...))
	if err != nil {
		w.t.Fatal(err)
	}
	informers.Start(ctx.Done())
	informers.WaitForCacheSync(ctx.Done())
	if err := stock.WaitForHandlersSync(ctx); err != nil {
		w.t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { defer close(done); stock.Run(ctx) }()
	w.t.Cleanup(func() {
		cancel()
		<-done
		informers.Shutdown()
		broadcaster.Shutdown()
	})
}
