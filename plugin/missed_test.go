package plugin_test

import (
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
)

// fullState has the launcher open another catalog stream, which no longer shows a node, and waits until the scheduler has its full state.
func (h *harness) fullState(without string) {
	h.t.Helper()
	h.launcher.mu.Lock()
	delete(h.launcher.inFlight, without)
	h.launcher.mu.Unlock()
	h.launcher.reconnect()
	h.launcher.offerAMD() // What a stream sends next is applied after its full state.
	h.pod("amd", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"kubernetes.io/arch": "amd64"} })
	h.eventually("a launch of what is offered since", func() bool { return h.launcher.podNames()["amd"] == 1 })
}

// A node that is initialized between two catalog streams is in neither: its pods stay promised until the scheduler sees it, as those of any.
func TestNodeInitializedBetweenStreams(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("full", "100m", nil)}})
	claim, node := h.starting("15890m", false)
	h.eventually("the node to be seen", func() bool { return len(h.sched.Cache.Dump().Nodes) == 2 })
	h.fullState(claim.GetName())
	for end := time.Now().Add(time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if n := h.metric("slipway_promised_pods", ""); n != 2 {
			t.Fatalf("%v pods are promised a node before the scheduler sees that it is initialized, want 2", n)
		}
	}
	h.updateNode(initialized(node))
	h.eventually("the pod to be bound", func() bool { return h.nodeOf("web-0") == node.Name })
	if n := len(h.launcher.claims()); n != 2 {
		t.Errorf("%d nodes were launched for two pods", n)
	}
}

// A node that ends between two streams is in neither as well. It is not Ready, and its pods are planned again at once.
func TestNodeEndedBetweenStreams(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("full", "100m", nil)}})
	claim, node := h.starting("15890m", false)
	node = node.DeepCopy()
	node.Status.Conditions[0].Status = corev1.ConditionFalse
	h.updateNode(node)
	h.eventually("the node to be seen", func() bool {
		seen, err := h.informer.Core().V1().Nodes().Lister().Get(node.Name)
		return err == nil && seen.Status.Conditions[0].Status == corev1.ConditionFalse
	})
	h.fullState(claim.GetName())
	h.eventually("another launch", func() bool { return h.launcher.podNames()["web-0"] == 2 })
	if n := h.metric("slipway_released_pods_total", "unknown"); n != 1 {
		t.Errorf("%v promises were released because the launcher did not know them, want 1", n)
	}
}

// A node joins while the launcher takes its time with another launch: its pods do not wait for that.
func TestNodeJoinsDuringALaunch(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("full", "100m", nil)}})
	claim, node := h.starting("15890m", false)
	const tries = 5 // Of a launch that is not answered.
	asked, answer := make(chan struct{}, tries), make(chan struct{})
	var once sync.Once
	release := func() { once.Do(func() { close(answer) }) }
	t.Cleanup(release)
	h.launcher.mu.Lock()
	h.launcher.before = func() {
		asked <- struct{}{}
		<-answer
	}
	h.launcher.mu.Unlock()
	h.pod("other", func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *node.Status.Allocatable.Cpu()
	})
	h.eventually("another launch", func() bool { return len(asked) > 0 })
	h.join(claim, node)
	h.eventually("the pod to be bound", func() bool { return h.nodeOf("web-0") == node.Name })
	if n := len(asked); n == tries {
		t.Errorf("the pod was bound after the launcher had been asked %d times", n)
	}
	release()
	h.eventually("the other pod's launch", func() bool { return h.launcher.podNames()["other"] > 0 })
}

// A plan takes its time. A pod that the scheduler has assumed on a node meanwhile, and binds, has no node launched.
func TestPodsAssumedWhileTheyArePlanned(t *testing.T) {
	t.Parallel()
	h := startWhilePlanned(t, func(h *harness) {
		pod := h.get("web-0").DeepCopy()
		pod.Spec.NodeName = "full"
		if err := h.sched.Cache.AssumePod(klog.Background(), pod); err != nil {
			t.Error(err)
		}
	})
	h.deployment("web", 2)
	h.eventually("a launch", func() bool { return len(h.launcher.podNames()) > 0 })
	for name, n := range h.launcher.podNames() {
		if name != "web-1" {
			t.Errorf("%s has %d nodes launched", name, n)
		}
	}
}
