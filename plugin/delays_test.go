package plugin_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-k8s/slipway/launcher/api"
)

// A node that was launched for a pod and does not run it costs its owner a delay before the next, and the pod says so. Other owners'
// pods wait for nothing.
func TestUselessLaunchDelaysTheNext(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("full", "100m", nil)}})
	h.pod("a", nil)
	h.eventually("the launch", func() bool { return h.launcher.podNames()["a"] == 1 })
	claim := h.launcher.requests()[0].GetClaims()[0].GetName()
	h.createNode(newNode("small", "100m", map[string]string{"karpenter.sh/nodepool": "default"}))
	h.launcher.end(claim, "small", api.Outcome_OUTCOME_INITIALIZED)
	h.eventually("the pod's condition", func() bool { return strings.Contains(h.message("a"), "could not run it") })
	if n := h.launcher.podNames()["a"]; n != 1 {
		t.Errorf("%d launches for the pod when its condition says that it waits", n)
	}
	message := h.message("a")
	for _, part := range []string{"NodeClaim " + claim, "Insufficient cpu; next launch after ", "0/2 nodes are available"} {
		if !strings.Contains(message, part) {
			t.Errorf("message %q lacks %q", message, part)
		}
	}
	h.pod("b", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "b"} })
	h.eventually("a launch for another", func() bool { return h.launcher.podNames()["b"] == 1 })
	if n := h.metric("slipway_useless_launches_total", ""); n != 1 {
		t.Errorf("slipway_useless_launches_total is %v", n)
	}
	h.eventually("the next launch, when the delay is over", func() bool { return h.launcher.podNames()["a"] == 2 })
}

// An instance that terminates while it boots costs its owner a delay, since nothing else is delayed for it: the next one most likely does the same.
func TestTerminatedInstanceDelaysTheNext(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("full", "100m", nil)}})
	h.pod("a", nil)
	for n := 1; h.metric("slipway_useless_launches_total", "") == 0; n++ {
		h.eventually("the launch", func() bool { return h.launcher.podNames()["a"] == n })
		if n > 3 {
			t.Fatalf("%d launches, and none was useless", n)
		}
		claims := h.launcher.claims()
		h.launcher.endFor(claims[len(claims)-1].GetName(), "", api.Outcome_OUTCOME_FAILED, api.ReasonInstanceTerminated)
		h.eventually("another launch, or a delay", func() bool {
			return h.launcher.podNames()["a"] == n+1 || h.metric("slipway_useless_launches_total", "") > 0
		})
	}
}

// A pod that the kubelet evicts right after its start costs its owner a delay, although the informer of pods leaves out failed ones: a
// Deployment's pod that uses more memory than it requests would have node after node launched.
func TestEvictionDelaysTheNextLaunch(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("full", "100m", nil)}})
	h.deployment("web", 1)
	h.eventually("the launch", func() bool { return h.launcher.podNames()["web-0"] == 1 })
	claim := h.launcher.requests()[0].GetClaims()[0].GetName()
	node := newNode("ip-1", "1930m", map[string]string{"karpenter.sh/nodepool": "default"})
	h.createNode(node)
	h.launcher.end(claim, "ip-1", api.Outcome_OUTCOME_INITIALIZED)
	h.eventually("the pod to be bound", func() bool { return h.bound() == 1 })

	node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeMemoryPressure, Effect: corev1.TaintEffectNoSchedule}}
	h.updateNode(node)
	h.eventually("the taint to be seen", func() bool { return h.tainted("ip-1") })
	h.evict("web-0")
	h.pod("web-1", ownedBy("web"))
	h.eventually("the replacement's condition", func() bool { return strings.Contains(h.message("web-1"), "could not run it: Evicted: low on memory") })
	if n := h.launcher.podNames()["web-1"]; n != 0 {
		t.Errorf("%d launches for the replacement when its condition says that it waits", n)
	}
	if n := h.metric("slipway_useless_launches_total", ""); n != 1 {
		t.Errorf("slipway_useless_launches_total is %v", n)
	}
	h.eventually("the next launch, when the delay is over", func() bool { return h.launcher.podNames()["web-1"] == 1 })
}

// evict does what a kubelet does with a pod whose node is low on memory.
func (h *harness) evict(name string) {
	h.t.Helper()
	pods := h.client.CoreV1().Pods("default")
	pod, err := pods.Get(h.ctx, name, metav1.GetOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodFailed, "Evicted", "low on memory"
	pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonTerminationByKubelet,
	})
	if _, err := pods.UpdateStatus(h.ctx, pod, metav1.UpdateOptions{}); err != nil {
		h.t.Fatal(err)
	}
}
