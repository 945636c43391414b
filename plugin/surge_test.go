package plugin_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-k8s/slipway/internal/disruption"
)

// runs puts a ReplicaSet's pod on node going.
func (h *harness) runs(name, owner string, cpu int64) {
	h.t.Helper()
	h.asks(name, cpu, func(p *corev1.Pod) {
		ownedBy(owner)(p)
		p.Spec.NodeName = "going"
	})
}

// surges replaces a pod that runs on, as a drain and the controller of its ReplicaSet do: first the set lets go of it.
func (h *harness) surges(old, next, owner string, cpu int64) {
	h.t.Helper()
	pod, err := h.client.CoreV1().Pods("default").Get(h.ctx, old, metav1.GetOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	pod = pod.DeepCopy()
	pod.OwnerReferences = nil
	pod.Annotations = map[string]string{disruption.ReleasedAnnotation: disruption.Released{Set: owner, Version: "1", At: time.Now()}.String()}
	if _, err := h.client.CoreV1().Pods("default").Update(h.ctx, pod, metav1.UpdateOptions{}); err != nil {
		h.t.Fatal(err)
	}
	h.asks(next, cpu, ownedBy(owner))
}

// takesRoom waits until the pod is placed on the node, and fails where another one is launched for it.
func (h *harness) takesRoom(node, pod string) {
	h.t.Helper()
	h.eventually("pod "+pod+" to be placed", func() bool { return h.nodeOf(pod) != "" || h.launcher.podNames()[pod] > 0 })
	if at := h.nodeOf(pod); at != node {
		h.t.Fatalf("pod %s is on %q, launched %v; it has room on node %s", pod, at, h.launcher.podNames(), node)
	}
}

// leaves has node going, on which so many pods run, be given up: there is room elsewhere for them.
func (h *harness) leaves(pods int) {
	h.t.Helper()
	h.known("going", pods)
	if a := h.going("going"); len(a.GetNodeClaims()) != 0 || a.GetNoRoom() != "" {
		h.t.Fatalf("answer %v: there is room on another node", a)
	}
	h.updateNode(newNode("going", "4", nil, disrupted()))
	h.eventually("the taint to be seen", func() bool { return h.tainted("going") })
}

// A pod that is replaced before it ends runs on while its replacement comes: that one has the room, of one such pod, that was planned for it. Nothing is
// launched, also when the launcher asks again while both run.
func TestSurgeTakesThePlannedRoom(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("going", "4", nil), newNode("room", "700m", nil), replicaSet("web", 1)}})
	h.runs("old", "web", 600)
	h.leaves(1)
	h.surges("old", "new", "web", 600)
	h.takesRoom("room", "new")
	h.eventually("the reservation to end", func() bool { return h.metric("slipway_replacement_pods_total", "") == 1 })
	if a := h.going("going", "uid-old"); len(a.GetNodeClaims()) != 0 || a.GetNoRoom() != "" {
		t.Errorf("answer %v: the replacement has its place", a)
	}
	h.launchedNothing()
}

// The replacements of several Deployments' only pods end one reservation each: what is left beside them on the node is free for others.
func TestSurgesOfSeveralDeployments(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("going", "4", nil), newNode("room", "2", nil), replicaSet("web", 1), replicaSet("api", 1)}})
	h.runs("web-old", "web", 600)
	h.runs("api-old", "api", 600)
	h.leaves(2)
	for _, owner := range []string{"web", "api"} {
		h.surges(owner+"-old", owner+"-new", owner, 600)
		h.takesRoom("room", owner+"-new")
	}
	h.eventually("the reservations to end", func() bool { return h.metric("slipway_replacement_pods_total", "") == 2 })
	h.asks("stranger", 700, pinnedTo("room"))
	h.eventually("a pod that fits beside them", func() bool { return h.nodeOf("stranger") == "room" })
	h.launchedNothing()
}

// The same where the room is on a node that still boots: no second one is launched.
func TestSurgeTakesThePlannedNode(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("going", "4", nil), newNode("full", "100m", nil), replicaSet("web", 1)}})
	h.runs("old", "web", 1500)
	h.known("going", 1)
	names := h.going("going").GetNodeClaims()
	if len(names) != 1 {
		t.Fatalf("%d nodes are launched for one pod", len(names))
	}
	h.updateNode(newNode("going", "4", nil, disrupted()))
	h.eventually("the taint to be seen", func() bool { return h.tainted("going") })
	h.surges("old", "new", "web", 1500)
	h.eventually("the replacement to be planned", func() bool { return h.launcher.podNames()["new"] == 1 })
	last := h.launcher.requests()[1]
	if len(last.GetClaims()) != 0 || len(last.GetPlacements()) != 1 || last.GetPlacements()[0].GetNodeClaim() != names[0] {
		t.Errorf("launched %v for the replacement, which has room on %s", last, names[0])
	}
}
