package plugin_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
	"k8s.io/kubernetes/pkg/scheduler"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/slipway-k8s/slipway/plugin"
)

// A pod that can preempt does, as Kubernetes' users expect; below preferLaunch a pod gets a node instead.
func TestPreemptOrLaunch(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name        string
		args        []string
		launchFirst bool
		preempts    bool
	}{
		{name: "default", args: []string{}, preempts: true},
		// The batch does not close while the pod is in its scheduling cycle, where preemption has its turn.
		{name: "preferred below the pod's priority", args: []string{"preferLaunch: 50", "batchIdle: 1m", "batchMax: 2m"}, launchFirst: true, preempts: true},
		{name: "preferred above the pod's priority", args: []string{"preferLaunch: 500"}, launchFirst: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h := start(t, harnessOptions{
				args: tc.args, launchFirst: tc.launchFirst, objects: []runtime.Object{newNode("small", "600m", nil)},
			})
			h.pod("victim", nil)
			h.eventually("the victim to run", func() bool { return h.bound() == 1 })
			h.pod("urgent", func(p *corev1.Pod) {
				priority := int32(100)
				p.Spec.Priority = &priority
			})
			if tc.preempts {
				h.eventually("the victim to go", func() bool {
					_, err := h.client.CoreV1().Pods("default").Get(h.ctx, "victim", metav1.GetOptions{})
					return err != nil
				})
				h.eventually("the pod to take its place", func() bool { return h.bound() == 1 })
			} else {
				h.eventually("a launch", func() bool { return h.launcher.podNames()["urgent"] == 1 })
			}
			h.pod("other", func(p *corev1.Pod) { p.Spec.PreemptionPolicy = new(corev1.PreemptNever) })
			h.eventually("a batch after it", func() bool { return h.launcher.podNames()["other"] == 1 })
			if launched := h.launcher.podNames()["urgent"] > 0; launched == tc.preempts {
				t.Errorf("launched: %t, preempts: %t", launched, tc.preempts)
			}
			if _, err := h.client.CoreV1().Pods("default").Get(h.ctx, "victim", metav1.GetOptions{}); (err != nil) != tc.preempts {
				t.Errorf("victim: %v", err)
			}
		})
	}
}

// Where DefaultPreemption comes first, preferLaunch would have no effect: that is said at the start, not found out later.
func TestPreferLaunchNeedsItsOrder(t *testing.T) {
	t.Parallel()
	client := fake.NewClientset()
	factory := scheduler.NewInformerFactory(client, 0)
	p, err := plugin.New(plugin.Options{Registerer: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	profiles := sample(t, "../manifests/scheduler/beside.yaml", "preferLaunch: 100")
	recorder := events.NewFakeRecorder(1)
	sched, err := scheduler.New(t.Context(), client, factory, nil, func(string) events.EventRecorderLogger { return recorder },
		scheduler.WithProfiles(profiles...), scheduler.WithFrameworkOutOfTreeRegistry(frameworkruntime.Registry{
			plugin.NodeLaunchName: p.NodeLaunch, plugin.NodeReserveName: p.NodeReserve,
		}))
	if err != nil {
		t.Fatal(err)
	}
	err = p.Install(t.Context(), plugin.Scheduler{Scheduler: sched, Profiles: profiles, Informers: factory, Client: client, Recorder: record.NewFakeRecorder(10)})
	if want := "args.preferLaunch: plugins.postFilter has DefaultPreemption before NodeLaunch"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
}
