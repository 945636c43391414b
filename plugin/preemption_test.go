package plugin_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/record"
	"k8s.io/kubernetes/pkg/scheduler"

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

// A pod waits for its victims on its nominated node as long as that helps, and no longer: as in Kubernetes, pods that terminate there for another reason are no
// victims, and a node that takes the pod in no case is not waited for.
func TestPodsThatTerminateOnTheNominatedNode(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		tweak func(node *corev1.Node, ends, preemptor *corev1.Pod)
		waits bool
		// after means that a node is launched when the victim has ended.
		after bool
	}{
		{name: "a victim ends", waits: true},
		{name: "a pod ends that was not preempted", tweak: func(_ *corev1.Node, ends, _ *corev1.Pod) { ends.Status.Conditions = nil }},
		{name: "a pod was evicted", tweak: func(_ *corev1.Node, ends, _ *corev1.Pod) { ends.Status.Conditions[0].Reason = "EvictionByEvictionAPI" }},
		{name: "the node is about to terminate", tweak: func(node *corev1.Node, _, _ *corev1.Pod) { node.Spec.Taints = []corev1.Taint{disrupted()} }},
		{name: "the node is about to terminate, and the nomination stays", tweak: func(node *corev1.Node, _, preemptor *corev1.Pod) {
			node.Spec.Taints, preemptor.Spec.PreemptionPolicy = []corev1.Taint{disrupted()}, new(corev1.PreemptNever)
		}},
		// Nothing but NodeLaunch ends the wait of this pod: its nomination stays, and NodeAffinity wakes no pod when one ends.
		{name: "the node is another by now", waits: true, after: true, tweak: func(_ *corev1.Node, _, preemptor *corev1.Pod) {
			preemptor.Spec.NodeSelector, preemptor.Spec.PreemptionPolicy = map[string]string{corev1.LabelTopologyZone: "us-east-1b"}, new(corev1.PreemptNever)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			node, ends, stays, preemptor := newNode("small", "900m", nil), newPod("ends", "400m", "64Mi"), newPod("stays", "500m", "64Mi"), newPod("urgent", "400m", "64Mi")
			stays.Spec.Priority, preemptor.Spec.Priority = new(int32(100)), new(int32(100))
			ends.Spec.NodeName, stays.Spec.NodeName, preemptor.Status.NominatedNodeName = node.Name, node.Name, node.Name
			ends.DeletionTimestamp = new(metav1.Now())
			ends.Status.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler}}
			if tc.tweak != nil {
				tc.tweak(node, ends, preemptor)
			}
			if !tc.waits { // There is too little room for it without the pod that ends, too: preemption does not help.
				preemptor.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("500m")
			}
			h := start(t, harnessOptions{objects: []runtime.Object{node, ends, stays}})
			h.known(node.Name, 2)
			if _, err := h.client.CoreV1().Pods("default").Create(h.ctx, preemptor, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			if !tc.waits {
				h.eventually("a node for the pod", func() bool { return h.launcher.podNames()["urgent"] == 1 })
				return
			}
			h.pod("other", func(p *corev1.Pod) { p.Spec.PreemptionPolicy = new(corev1.PreemptNever) })
			h.eventually("a batch after it", func() bool { return h.launcher.podNames()["other"] == 1 })
			if h.launcher.podNames()["urgent"] != 0 {
				t.Error("a node was launched while the victim terminates")
			}
			if err := h.client.CoreV1().Pods("default").Delete(h.ctx, "ends", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			if tc.after {
				h.eventually("a node for the pod", func() bool { return h.launcher.podNames()["urgent"] == 1 })
				return
			}
			h.eventually("the pod in the victim's place", func() bool { return h.nodeOf("urgent") == node.Name })
			if h.launcher.podNames()["urgent"] != 0 {
				t.Error("a node was launched for a pod that has its victim's place")
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
		scheduler.WithProfiles(profiles...), scheduler.WithFrameworkOutOfTreeRegistry(p.Registry()))
	if err != nil {
		t.Fatal(err)
	}
	err = p.Install(t.Context(), plugin.Scheduler{Scheduler: sched, Profiles: profiles, Informers: factory, Client: client, Recorder: record.NewFakeRecorder(10)})
	if want := "args.preferLaunch: plugins.postFilter has DefaultPreemption before NodeLaunch"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %s", err, want)
	}
}
