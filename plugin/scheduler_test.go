package plugin_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

func starting() corev1.Taint {
	return corev1.Taint{Key: catalog.StartingTaintKey, Effect: corev1.TaintEffectNoSchedule}
}

// hooksOnAndOff are arguments of which those with hooks leave nothing to time.
func hooksOnAndOff() map[string][]string {
	return map[string][]string{
		"with hooks":    {"hooks: true", "batchIdle: 1m", "batchMax: 2m"},
		"without hooks": {"hooks: false", "batchIdle: 500ms"},
	}
}

// The way of a pod: pending, launched for, promised, and released when its node is there.
func TestPendingPodsGetNodes(t *testing.T) {
	t.Parallel()
	for name, args := range hooksOnAndOff() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, harnessOptions{
				args:    args,
				objects: []runtime.Object{newNode("full", "100m", nil)},
			})
			h.deployment("web", 6)
			h.eventually("a launch", func() bool { return len(h.launcher.podNames()) == 6 })
			for pod, n := range h.launcher.podNames() {
				if n != 1 {
					t.Errorf("pod %s was sent %d times", pod, n)
				}
			}
			// Without the hooks nothing reports when the queue has drained, and time decides.
			if n := len(h.launcher.requests()); n != 1 && name == "with hooks" {
				t.Errorf("%d batches for one Deployment: %v", n, h.launcher.requests())
			}
			h.eventually("the pods' conditions", func() bool {
				return strings.Contains(h.message("web-0"), "launching m7g.") && strings.Contains(h.message("web-5"), "NodeClaim default-")
			})
			claims := h.launcher.claims()
			var nodes []*corev1.Node
			for _, c := range claims {
				node := newNode("ip-"+c.GetName(), "15890m", map[string]string{"karpenter.sh/nodepool": "default"}, starting())
				h.createNode(node)
				nodes = append(nodes, node)
			}
			h.eventually("the nodes to be seen", func() bool { return len(h.sched.Cache.Dump().Nodes) == 1+len(nodes) })
			if n := h.bound(); n != 0 {
				t.Fatalf("%d pods were bound before their node was initialized", n)
			}
			for _, n := range nodes {
				h.updateNode(initialized(n))
			}
			for i, c := range claims {
				h.launcher.end(c.GetName(), nodes[i].Name, api.Outcome_OUTCOME_INITIALIZED)
			}
			h.eventually("all pods to be bound", func() bool { return h.bound() == 6 })
			if n := len(h.launcher.claims()); n != len(claims) {
				t.Errorf("%d more claims were launched for pods that had their nodes", n-len(claims))
			}
		})
	}
}

func TestClusterWithoutNodes(t *testing.T) {
	t.Parallel()
	for name, args := range hooksOnAndOff() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, harnessOptions{args: args})
			h.deployment("web", 3)
			h.eventually("a launch", func() bool { return len(h.launcher.podNames()) == 3 })
			c := h.launcher.claims()[0]
			node := newNode("ip-1", "15890m", map[string]string{"karpenter.sh/nodepool": "default"})
			h.createNode(node)
			for _, c := range h.launcher.claims() {
				h.launcher.end(c.GetName(), node.Name, api.Outcome_OUTCOME_INITIALIZED)
			}
			h.eventually("all pods to be bound", func() bool { return h.bound() == 3 })
			if len(h.launcher.requests()) != 1 && name == "with hooks" {
				t.Errorf("claim %s was not the only one: %v", c.GetName(), h.launcher.requests())
			}
		})
	}
}

// Pods that come while nodes boot go to the room on those first.
func TestSecondWaveUsesRoomInFlight(t *testing.T) {
	t.Parallel()
	for name, silent := range map[string]bool{"shown by the launcher": false, "not shown yet": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, harnessOptions{
				objects: []runtime.Object{newNode("full", "100m", nil)},
				prepare: func(l *testLauncher) {
					l.silent = silent
					l.types[0].Types = l.types[0].Types[2:] // 15890m only: much room is left.
				},
			})
			h.deployment("first", 2)
			h.eventually("a launch", func() bool { return len(h.launcher.podNames()) == 2 })
			if silent {
				// The room is known although no stream reported it: nothing new may be launched. A placement on a claim
				// that the launcher's double does not show cannot be answered there.
				h.launcher.mu.Lock()
				for _, c := range h.launcher.launches[0].GetClaims() {
					h.launcher.inFlight[c.GetName()] = &api.InFlightNode{NodeClaim: c.GetName(), NodePool: "default"}
				}
				h.launcher.mu.Unlock()
			}
			h.deployment("second", 3)
			h.eventually("the second wave", func() bool { return len(h.launcher.podNames()) == 5 })
			if n := len(h.launcher.claims()); n != 1 {
				t.Errorf("%d claims, want 1: %v", n, h.launcher.requests())
			}
		})
	}
}

// Pods that wait in an open batch while a node comes take the room on it that no pod was promised.
func TestOpenBatchUsesNodeThatCame(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{
		args:    []string{"batchIdle: 1m", "batchMax: 2m"},
		objects: []runtime.Object{newNode("full", "100m", nil)},
		prepare: func(l *testLauncher) { l.types[0].Types = l.types[0].Types[2:] },
	})
	h.deployment("first", 2)
	h.eventually("a launch", func() bool { return len(h.launcher.claims()) == 1 })
	// An owner that wants one more: the batch stays open.
	h.replicaSet("second", 2)
	h.pod("second-0", ownedBy("second"))
	h.eventually("the pod to be collected", func() bool { return len(h.sched.SchedulingQueue.UnschedulablePods()) == 3 })
	h.createNode(newNode("ip-1", "15890m", map[string]string{"karpenter.sh/nodepool": "default"}))
	h.launcher.end(h.launcher.claims()[0].GetName(), "ip-1", api.Outcome_OUTCOME_INITIALIZED)
	h.eventually("the node to be seen", func() bool { return len(h.sched.Cache.Dump().Nodes) == 2 })
	h.pod("second-1", ownedBy("second"))
	h.eventually("all pods to be bound", func() bool { return h.bound() == 4 })
	if n := len(h.launcher.claims()); n != 1 {
		t.Errorf("%d claims for pods that fit one node: %v", n, h.launcher.requests())
	}
}

// A scheduler that starts anew gets the promises before it knows any pod: the promises hold all the same, from the first cycle on.
func TestPromisesOutliveTheScheduler(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{
		objects: []runtime.Object{newPod("promised", "500m", "512Mi"), newNode("free", "600m", nil)},
		prepare: func(l *testLauncher) {
			l.inFlight["default-1"] = &api.InFlightNode{
				NodeClaim: "default-1", NodePool: "default", Phase: api.Phase_PHASE_LAUNCHED,
				Allocatable: map[string]string{"cpu": "600m", "memory": "7Gi", "pods": "58"},
				Pods:        []*api.PodRef{{Namespace: "default", Name: "promised", Uid: "uid-promised"}},
			}
		},
	})
	h.pod("other", nil)
	h.eventually("a pod to be bound", func() bool { return h.bound() == 1 })
	pod, err := h.client.CoreV1().Pods("default").Get(h.ctx, "other", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if pod.Spec.NodeName != "free" {
		t.Errorf("the other pod is on node %q: the one that is promised another node has taken its room", pod.Spec.NodeName)
	}
}

// The scheduler may see that a node's taint is gone before it sees that the node's pods are bound: their room is theirs.
func TestRoomOfPromisedPodsIsKept(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{
		objects: []runtime.Object{newPod("promised", "500m", "512Mi"), ownedNode("ip-1", "600m", "default-1", starting())},
		prepare: func(l *testLauncher) {
			l.inFlight["default-1"] = &api.InFlightNode{
				NodeClaim: "default-1", NodeName: "ip-1", NodePool: "default", Phase: api.Phase_PHASE_REGISTERED,
				Allocatable: map[string]string{"cpu": "600m", "memory": "7Gi", "pods": "58"},
				Pods:        []*api.PodRef{{Namespace: "default", Name: "promised", Uid: "uid-promised"}},
			}
		},
	})
	h.eventually("the promise", func() bool { return h.metric("slipway_promised_pods", "") == 1 })
	h.updateNode(ownedNode("ip-1", "600m", "default-1"))
	h.eventually("the taint to be gone", func() bool { return !h.tainted("ip-1") })
	h.pod("other", nil)
	h.eventually("a node for the other pod", func() bool { return h.launcher.podNames()["other"] == 1 })
	if n := h.bound(); n != 0 {
		t.Errorf("%d pods were bound: the room was promised", n)
	}
}

// Until the launcher reports that a node has joined, which comes late where it is asked much, the scheduler may see that the node's
// taint is gone: the room of those that are promised the node is theirs all the same.
func TestRoomOfPromisedPodsIsKeptBeforeTheLauncherTells(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{
		objects: []runtime.Object{newPod("promised", "500m", "512Mi"), ownedNode("ip-1", "600m", "default-1", starting())},
		prepare: func(l *testLauncher) {
			l.inFlight["default-1"] = &api.InFlightNode{
				NodeClaim: "default-1", NodePool: "default", Phase: api.Phase_PHASE_LAUNCHED,
				Allocatable: map[string]string{"cpu": "600m", "memory": "7Gi", "pods": "58"},
				Pods:        []*api.PodRef{{Namespace: "default", Name: "promised", Uid: "uid-promised"}},
			}
		},
	})
	h.eventually("the promise", func() bool { return h.metric("slipway_promised_pods", "") == 1 })
	h.updateNode(ownedNode("ip-1", "600m", "default-1"))
	h.eventually("the taint to be gone", func() bool { return !h.tainted("ip-1") })
	h.pod("other", nil)
	h.eventually("a node for the other pod", func() bool { return h.launcher.podNames()["other"] == 1 || h.bound() > 0 })
	if n := h.bound(); n != 0 {
		t.Errorf("%d pods were bound: the room was promised", n)
	}
	h.pod("small", func(p *corev1.Pod) { p.Spec.Containers = newPod("x", "100m", "64Mi").Spec.Containers })
	h.eventually("the rest of the room to be used", func() bool { return h.bound() == 1 })
}
