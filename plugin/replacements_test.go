package plugin_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-k8s/slipway/launcher/api"
)

// on puts a pod of ReplicaSet web on a node.
func (h *harness) on(node, name string) {
	h.t.Helper()
	h.pod(name, func(p *corev1.Pod) {
		ownedBy("web")(p)
		p.Spec.NodeName = node
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *milli(600)
	})
}

func (h *harness) known(node string, pods int) {
	h.t.Helper()
	h.eventually("the pods of "+node+" to be known", func() bool {
		info, ok := h.sched.Cache.Dump().Nodes[node]
		return ok && len(info.Pods) == pods
	})
}

// going asks for room for pods of a node that terminates: for all that it has where none is named.
func (h *harness) going(node string, pods ...string) *api.MakeRoomAnswer {
	h.t.Helper()
	if len(pods) == 0 {
		for _, p := range h.sched.Cache.Dump().Nodes[node].Pods {
			pods = append(pods, string(p.GetPod().UID))
		}
	}
	return h.terminates(&api.MakeRoom{NodeNames: []string{node}, Reason: "spot_interrupted", Pods: pods})
}

// terminates asks for room for pods of nodes that terminate.
func (h *harness) terminates(q *api.MakeRoom) *api.MakeRoomAnswer {
	h.t.Helper()
	q.Purpose = api.Purpose_PURPOSE_TERMINATION
	return h.ask(&api.Question{Id: fmt.Sprint(q.GetNodeNames(), len(h.launcher.requests())), Kind: &api.Question_MakeRoom{MakeRoom: q}}).GetMakeRoom()
}

// Room that was planned for the pods of a node that goes is theirs, then that of the pods their controller creates: others
// that come first do not take it.
func TestReplacementsTakeTheRoomPlannedForThem(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("going", "4", nil), newNode("full", "100m", nil), replicaSet("web", 3)}})
	for _, name := range []string{"a", "b", "c"} {
		h.on("going", name)
	}
	h.known("going", 3)
	answer := h.going("going")
	if len(answer.GetNodeClaims()) != 1 {
		t.Fatalf("answer %v, want one claim for three pods of 600m", answer)
	}
	replacement := answer.GetNodeClaims()[0]
	h.updateNode(newNode("going", "4", nil, disrupted()))
	h.eventually("the taint to be seen", func() bool { return h.tainted("going") })
	for _, name := range []string{"a", "b", "c"} {
		if err := h.client.CoreV1().Pods("default").Delete(h.ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	h.known("going", 0)
	h.pod("stranger", func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *milli(1700) })
	h.eventually("the stranger to be planned", func() bool { return h.launcher.podNames()["stranger"] == 1 })
	for i := range 3 {
		h.pod(fmt.Sprint("replacement-", i), func(p *corev1.Pod) {
			ownedBy("web")(p)
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *milli(600)
		})
	}
	var there []string
	h.eventually("the replacements to be planned", func() bool {
		there = nil
		for _, r := range h.launcher.requests() {
			for _, p := range r.GetPlacements() {
				for _, pod := range p.GetPods() {
					if p.GetNodeClaim() == replacement {
						there = append(there, pod.GetName())
					}
				}
			}
		}
		return len(h.launcher.podNames()) == 7
	})
	slices.Sort(there)
	if want := []string{"replacement-0", "replacement-1", "replacement-2"}; !slices.Equal(there, want) {
		t.Errorf("%v were promised room on %s, want %v", there, replacement, want)
	}
	if n := h.metric("slipway_replacement_pods_total", ""); n != 3 {
		t.Errorf("slipway_replacement_pods_total is %v", n)
	}
}

// Two nodes go at the same time, and there is room elsewhere for the pods of one.
func TestNodesGoingTogetherDoNotShareRoom(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{
		newNode("one", "1", nil), newNode("two", "1", nil), newNode("three", "1", nil), newNode("room", "700m", nil),
	}})
	for _, name := range []string{"one", "two", "three"} {
		h.on(name, "on-"+name)
		h.known(name, 1)
	}
	if a := h.going("one"); len(a.GetNodeClaims()) != 0 || a.GetNoRoom() != "" {
		t.Fatalf("the pod fits on node room; answer %v", a)
	}
	second := h.going("two")
	if len(second.GetNodeClaims()) != 1 {
		t.Fatalf("the room is taken; answer %v", second)
	}
	// The new node has room for a second pod: that of the second node keeps its own.
	if third := h.going("three"); len(third.GetNodeClaims()) != 0 || third.GetNoRoom() != "" {
		t.Errorf("answer %v, want the room left on %v", third, second.GetNodeClaims())
	}
	if got := h.launcher.podNames(); got["on-two"] != 1 || got["on-three"] != 1 || len(got) != 2 {
		t.Errorf("planned %v", got)
	}
	if a := h.going("one"); len(a.GetNodeClaims()) != 0 || len(h.launcher.claims()) != 1 {
		t.Errorf("asked again: %v", a)
	}
}

// Only the pods that move are planned for; and again, where what was launched for them failed.
func TestGoingPlansForThosePodsThatLostTheirRoom(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("going", "4", nil), newNode("full", "100m", nil)}})
	for _, name := range []string{"a", "b", "stays"} {
		h.on("going", name)
	}
	h.known("going", 3)
	first := h.going("going", "uid-a", "uid-b")
	if got := h.launcher.podNames(); len(first.GetNodeClaims()) != 1 || got["a"] != 1 || got["b"] != 1 || len(got) != 2 {
		t.Fatalf("answer %v, planned %v", first, got)
	}
	h.launcher.end(first.GetNodeClaims()[0], "", api.Outcome_OUTCOME_FAILED)
	h.eventually("another launch for the same pods", func() bool {
		again := h.going("going", "uid-a", "uid-b").GetNodeClaims()
		return len(again) == 1 && again[0] != first.GetNodeClaims()[0]
	})
	if got := h.launcher.podNames(); got["a"] != 2 || got["b"] != 2 || len(got) != 2 {
		t.Errorf("planned %v", got)
	}
}

// The same where the node ended between two catalog streams: the full state of the second one lacks it, and no stream reports its end.
func TestGoingPlansAgainWhereTheEndWasMissed(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("going", "4", nil), newNode("full", "100m", nil)}})
	h.on("going", "a")
	h.known("going", 1)
	first := h.going("going", "uid-a").GetNodeClaims()
	if len(first) != 1 {
		t.Fatalf("planned %v", first)
	}
	h.launcher.endUnseen(first[0])
	h.eventually("another launch for the same pod", func() bool {
		again := h.going("going", "uid-a").GetNodeClaims()
		return len(again) == 1 && again[0] != first[0]
	})
	// One that still boots is no reason to plan again. What the stream sends next is applied after its full state.
	second := h.going("going", "uid-a").GetNodeClaims()
	h.launcher.reconnect()
	h.pod("amd", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"kubernetes.io/arch": "amd64"} })
	h.eventually("the reason", func() bool { return strings.Contains(h.message("amd"), "NodePool default") })
	h.launcher.offerAMD()
	h.eventually("a launch of what is offered since", func() bool { return h.launcher.podNames()["amd"] == 1 })
	if again := h.going("going", "uid-a").GetNodeClaims(); len(again) != 1 || again[0] != second[0] || h.launcher.podNames()["a"] != 2 {
		t.Errorf("the room on %v is planned again on %v", second, again)
	}
}

// A launcher that refuses a NodeClaim knows of a change that the plan did not. The answer names the claim, which does not exist: the launcher asks again,
// and evicts nothing meanwhile.
func TestRefusedRoomIsAskedForAgain(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{
		objects: []runtime.Object{newNode("going", "4", nil), newNode("full", "100m", nil), replicaSet("web", 1)},
		prepare: func(l *testLauncher) {
			l.refuse = func(c *api.Claim) *api.Result {
				return &api.Result{Name: c.GetName(), Reason: "NodePoolNotFound", Message: "NodePool general is being deleted"}
			}
		},
	})
	h.on("going", "a")
	h.known("going", 1)
	answer := h.going("going")
	names := answer.GetNodeClaims()
	if len(names) != 1 || !strings.Contains(answer.GetNoRoom(), names[0]) || !strings.Contains(answer.GetNoRoom(), "is being deleted") {
		t.Fatalf("answer %v, want the NodeClaim that was refused, and why", answer)
	}
	h.launcher.mu.Lock()
	h.launcher.refuse = nil
	h.launcher.mu.Unlock()
	again := h.going("going")
	if got := again.GetNodeClaims(); len(got) != 1 || got[0] == names[0] || again.GetNoRoom() != "" {
		t.Errorf("answer %v, want another NodeClaim than %s", again, names[0])
	}
}

// A replacement whose ReadWriteOncePod claim the displaced pod still has waits for that one's end, and then gets its room: others that come meanwhile do not
// take it, and no node is launched for it.
func TestRoomIsKeptWhileTheDisplacedPodHasTheClaim(t *testing.T) {
	t.Parallel()
	zone := map[string]string{corev1.LabelTopologyZone: "us-east-1b"}
	h := start(t, harnessOptions{objects: append(oncePod()[1:], newNode("going", "4", zone), replicaSet("web", 1))})
	of := func(p *corev1.Pod) {
		withData("web")(p)
		ownedBy("web")(p)
	}
	h.asks("old", 600, func(p *corev1.Pod) {
		of(p)
		p.Spec.NodeName = "going"
	})
	h.known("going", 1)
	h.createNode(newNode("surge", "700m", zone))
	h.known("surge", 0)
	if a := h.going("going"); a.GetNoRoom() != "" || len(a.GetNodeClaims()) != 0 {
		t.Fatalf("the pod fits on node surge; answer %v", a)
	}
	h.updateNode(newNode("going", "4", zone, disrupted()))
	h.eventually("the taint to be seen", func() bool { return h.tainted("going") })
	old, err := h.client.CoreV1().Pods("default").Get(h.ctx, "old", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	old = old.DeepCopy()
	old.DeletionTimestamp, old.DeletionGracePeriodSeconds = new(metav1.NewTime(time.Now().Add(time.Minute))), new(int64(60))
	if _, err := h.client.CoreV1().Pods("default").Update(h.ctx, old, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.asks("new", 600, of)
	h.eventually("the replacement to wait for the claim", func() bool { return h.says("new", "pod default/old uses it") })
	h.asks("stranger", 600, nil)
	h.eventually("the stranger to be planned", func() bool { return h.launcher.podNames()["stranger"] == 1 || h.nodeOf("stranger") != "" })
	if at := h.nodeOf("stranger"); at != "" {
		t.Fatalf("the stranger is on %s, in the room of the replacement", at)
	}
	if err := h.client.CoreV1().Pods("default").Delete(h.ctx, "old", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.eventually("the replacement to be placed", func() bool { return h.launcher.podNames()["new"] > 0 || h.nodeOf("new") != "" })
	if at := h.nodeOf("new"); at != "surge" {
		t.Errorf("the replacement is on %q; launched %v", at, h.launcher.podNames())
	}
}

func milli(n int64) *resource.Quantity { return resource.NewMilliQuantity(n, resource.DecimalSI) }

// A pod that its controller made instead of one that ends in a moment gets that one's room: the node is full until then, and none is
// launched. A machine that stands still for longer than the pod waits is given another try.
func TestNoNodeForTheRoomOfAPodThatEnds(t *testing.T) {
	const waits = 10 * time.Second
	for range 5 {
		launches, took := roomOfAPodThatEnds(t)
		switch {
		case launches == 0:
			return
		case took < waits:
			t.Fatalf("%d launches within %s, while the room of a pod came free", launches, took)
		}
		t.Logf("The pod had to wait for %s.", took)
	}
	t.Fatal("the pod had to wait too long, time and again")
}

// roomOfAPodThatEnds returns how many launches there were until the new pod was placed or had to have a node, and how long that took.
func roomOfAPodThatEnds(t *testing.T) (launches int, took time.Duration) {
	t.Helper()
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("full", "700m", nil), replicaSet("web", 1)}})
	h.on("full", "old")
	h.known("full", 1)
	old, err := h.client.CoreV1().Pods("default").Get(h.ctx, "old", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// As a deletion without a grace period leaves it between its two writes.
	old = old.DeepCopy()
	begun := time.Now()
	old.DeletionTimestamp, old.DeletionGracePeriodSeconds = new(metav1.NewTime(begun.Add(5*time.Second))), new(int64(0))
	if _, err := h.client.CoreV1().Pods("default").Update(h.ctx, old, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	h.eventually("the deletion to be known", func() bool {
		p, err := h.informer.Core().V1().Pods().Lister().Pods("default").Get("old")
		return err == nil && p.DeletionTimestamp != nil
	})
	h.asks("new", 600, ownedBy("web"))
	launched := func() bool { return len(h.launcher.requests()) > 0 }
	h.eventually("the condition to name the pod whose room the new one gets", func() bool { return launched() || strings.Contains(h.message("new"), "pod default/old ends") })
	if err := h.client.CoreV1().Pods("default").Delete(h.ctx, "old", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.eventually("the new pod to be placed", func() bool { return launched() || h.nodeOf("new") == "full" })
	return len(h.launcher.requests()), time.Since(begun)
}
