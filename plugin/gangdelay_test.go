package plugin_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/launcher/api"
)

// Withdraw takes promises back: the NodeClaims were launched for their pods alone.
func (l *testLauncher) Withdraw(_ context.Context, req *api.WithdrawRequest) (*api.WithdrawResponse, error) {
	out := &api.WithdrawResponse{}
	for _, p := range req.GetPromises() {
		l.end(p.GetNodeClaim(), "", api.Outcome_OUTCOME_DELETED)
		out.Deleted = append(out.Deleted, p.GetNodeClaim())
	}
	return out, nil
}

// A gang for which EC2 has a part of the nodes alone gives them back, and waits before it is launched for again, whatever else can be launched
// meanwhile. Nodes that exist run it at once.
func TestGangThatGaveBackWaits(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{
		objects: []runtime.Object{newNode("full", "100m", nil)},
		prepare: func(l *testLauncher) {
			l.types[0].Types = l.types[0].Types[:1] // Each pod fills a node.
		},
	})
	onDemand := map[string]string{"karpenter.sh/capacity-type": "on-demand", "topology.kubernetes.io/zone": "us-east-1a"}
	for i := range 3 {
		h.pod(fmt.Sprintf("g-%d", i), func(p *corev1.Pod) {
			inGang(3)(p)
			p.Spec.Containers[0].Resources.Requests = newPod("x", "1500m", "512Mi").Spec.Containers[0].Resources.Requests
			p.Spec.NodeSelector = onDemand
		})
	}
	h.eventually("a node for each of them", func() bool { return len(h.launcher.claims()) == 3 })
	h.launcher.end(h.launcher.claims()[2].GetName(), "", api.Outcome_OUTCOME_FAILED)
	h.eventually("the gang's pods to wait", func() bool { return h.metric("slipway_planned_pods_total", "delayed") >= 3 })
	h.eventually("the condition of one of them", func() bool {
		return slices.ContainsFunc([]string{"g-0", "g-1", "g-2"}, func(name string) bool {
			return h.says(name, "gang default/g runs with all 3 or none", "EC2 has no capacity", "; next launch after ")
		})
	})
	h.launcher.offerAMD()
	h.pod("other", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"kubernetes.io/arch": "amd64"} })
	h.eventually("a launch for another, of what can be launched now", func() bool { return h.launcher.podNames()["other"] == 1 })
	h.eventually("the delay to be counted", func() bool { return h.metric("slipway_delayed_owners", "") == 1 })
	if pods := h.launcher.podNames(); pods["g-0"] != 1 || pods["g-1"] != 1 || pods["g-2"] != 1 {
		t.Errorf("launched again for the gang: %v", pods)
	}
	h.createNode(newNode("big", "5", onDemand))
	h.eventually("the gang to run", func() bool { return h.bound() == 3 })
}

// A pod of a gang that waits for its next launch keeps no room on a node that exists, however often the scheduler tries it there.
func TestGangThatWaitsKeepsNoRoom(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{
		objects: []runtime.Object{newNode("free", "600m", nil)},
		prepare: func(l *testLauncher) { l.types[0].Types = l.types[0].Types[:1] },
	})
	h.pod("here", func(p *corev1.Pod) {
		inGang(3)(p)
		p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "free"}
	})
	for _, name := range []string{"away-0", "away-1"} {
		h.pod(name, func(p *corev1.Pod) {
			inGang(3)(p)
			p.Spec.Containers[0].Resources.Requests = newPod("x", "1500m", "512Mi").Spec.Containers[0].Resources.Requests
			p.Spec.NodeSelector = map[string]string{"karpenter.sh/capacity-type": "on-demand", "topology.kubernetes.io/zone": "us-east-1a"}
		})
	}
	h.eventually("two nodes", func() bool { return len(h.launcher.claims()) == 2 })
	h.launcher.end(h.launcher.claims()[1].GetName(), "", api.Outcome_OUTCOME_FAILED)
	h.eventually("the gang's pods to wait", func() bool { return h.metric("slipway_planned_pods_total", "delayed") >= 2 })
	h.eventually("the room to be given back", func() bool { return h.waiting() == 0 })
	here, err := h.client.CoreV1().Pods("default").Get(h.ctx, "here", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	tried := h.metric("slipway_planned_pods_total", "delayed")
	h.sched.SchedulingQueue.Activate(klog.FromContext(h.ctx), map[string]*corev1.Pod{"default/here": here})
	h.eventually("the gang's other pods to be tried", func() bool { return h.metric("slipway_planned_pods_total", "delayed") > tried })
	h.pod("other", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "free"} })
	h.eventually("another pod to have the room", func() bool { return h.bound() == 1 })
}
