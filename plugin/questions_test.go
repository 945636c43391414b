package plugin_test

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/slipway-k8s/slipway/launcher/api"
)

func disrupted() corev1.Taint {
	return corev1.Taint{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule}
}

// tainted says whether the scheduler's cache shows a taint on the node.
func (h *harness) tainted(name string) bool {
	info, ok := h.sched.Cache.Dump().Nodes[name]
	return ok && info.Node() != nil && len(info.Node().Spec.Taints) > 0
}

func (h *harness) ask(q *api.Question) *api.Answer {
	h.t.Helper()
	h.launcher.questions <- q
	select {
	case a := <-h.launcher.answers:
		if a.GetId() != q.GetId() {
			h.t.Fatalf("answer %s to question %s", a.GetId(), q.GetId())
		}
		return a
	case <-time.After(2 * time.Minute):
		h.t.Fatalf("no answer to %v", q)
		return nil
	}
}

func (h *harness) askBusy(id, node string) *api.NodeBusyAnswer {
	h.t.Helper()
	return h.ask(&api.Question{Id: id, Kind: &api.Question_NodeBusy{NodeBusy: &api.NodeBusy{NodeName: node}}}).GetNodeBusy()
}

// A node may only be taken away when the scheduler can put nothing there any more.
func TestNodeBusy(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{
		newNode("cordoned", "1930m", nil, disrupted()), newNode("open", "100m", nil), newNode("later", "100m", nil),
	}})
	if a := h.askBusy("1", "cordoned"); a.GetBusy() {
		t.Errorf("an empty cordoned node is busy: %s", a.GetReason())
	}
	if a := h.askBusy("2", "gone"); a.GetBusy() {
		t.Errorf("a node that does not exist is busy: %s", a.GetReason())
	}
	begin := time.Now()
	if a := h.askBusy("3", "open"); !a.GetBusy() || time.Since(begin) < 4*time.Second {
		t.Errorf("a node without the taint: %v after %s", a, time.Since(begin))
	}
	time.AfterFunc(300*time.Millisecond, func() {
		h.updateNode(newNode("later", "100m", nil, disrupted()))
	})
	begin = time.Now()
	if a := h.askBusy("4", "later"); a.GetBusy() && time.Since(begin) < 4*time.Second {
		t.Errorf("busy at once, and not when the time for the taint is over: %s", a.GetReason())
	}
	h.eventually("the taint in the cache", func() bool { return !h.askBusy("5", "later").GetBusy() })
	h.pod("gated", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "wait"}} })
	h.eventually("the nomination", func() bool {
		pod, err := h.informer.Core().V1().Pods().Lister().Pods("default").Get("gated")
		if err != nil {
			return false
		}
		info, err := framework.NewPodInfo(pod)
		if err != nil {
			t.Fatal(err)
		}
		h.sched.SchedulingQueue.AddNominatedPod(klog.Background(), info, framework.NewPostFilterResultWithNominatedNode("cordoned").NominatingInfo)
		return true
	})
	if a := h.askBusy("5", "cordoned"); !a.GetBusy() || !strings.Contains(a.GetReason(), "nominated") {
		t.Errorf("a nominated pod does not count: %v", a)
	}
}

// A promise keeps its node.
func TestPromisedNodeIsBusy(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{
		objects: []runtime.Object{newPod("promised", "500m", "512Mi"), newNode("ip-1", "1930m", nil, starting(), disrupted())},
		prepare: func(l *testLauncher) {
			l.inFlight["default-1"] = &api.InFlightNode{
				NodeClaim: "default-1", NodeName: "ip-1", NodePool: "default", Phase: api.Phase_PHASE_READY,
				Allocatable: map[string]string{"cpu": "1930m", "memory": "7Gi", "pods": "58"},
				Pods:        []*api.PodRef{{Namespace: "default", Name: "promised", Uid: "uid-promised"}},
			}
		},
	})
	h.eventually("the promise", func() bool { return h.metric("slipway_promised_pods", "") == 1 })
	if a := h.askBusy("1", "ip-1"); !a.GetBusy() || !strings.Contains(a.GetReason(), "promised") {
		t.Errorf("a promised node is free: %v", a)
	}
}

// The pods of a node that terminates get room before they lose it: on other nodes first, then on new ones.
func TestRoomForATermination(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("going", "4", nil), newNode("daemons", "100m", nil)}})
	for _, name := range []string{"a", "b", "c"} {
		h.pod(name, func(p *corev1.Pod) { p.Spec.NodeName = "going" })
	}
	yes := true
	h.pod("daemon", func(p *corev1.Pod) {
		p.Spec.NodeName = "going"
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "d", UID: "d", Controller: &yes}}
	})
	h.eventually("the pods to be known", func() bool {
		info, ok := h.sched.Cache.Dump().Nodes["going"]
		return ok && len(info.Pods) == 4
	})
	first := h.going("going", "uid-a", "uid-b", "uid-c")
	if len(first.GetNodeClaims()) == 0 || first.GetNoRoom() != "" {
		t.Fatalf("answer %v", first)
	}
	claims := h.launcher.claims()
	if len(claims) != len(first.GetNodeClaims()) {
		t.Errorf("launched %v", claims)
	}
	h.launchedFor(api.Purpose_PURPOSE_TERMINATION, "going")
	if pods := h.launcher.podNames(); len(pods) != 3 || pods["daemon"] != 0 {
		t.Errorf("planned for %v, want a, b and c", pods)
	}
	second := h.going("going", "uid-a", "uid-b", "uid-c")
	if len(second.GetNodeClaims()) != len(first.GetNodeClaims()) || len(h.launcher.claims()) != len(claims) {
		t.Errorf("asked again, the answer is %v and %d claims", second, len(h.launcher.claims()))
	}
	// The pods are evicted, and their replacements take that room.
	for _, name := range []string{"a", "b", "c"} {
		if err := h.client.CoreV1().Pods("default").Delete(h.ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	h.updateNode(newNode("going", "4", nil, disrupted()))
	h.eventually("the taint to be seen", func() bool { return h.tainted("going") })
	h.deployment("replacement", 3)
	h.eventually("the replacements", func() bool { return len(h.launcher.podNames()) == 6 })
	if n := len(h.launcher.claims()); n != len(claims) {
		t.Errorf("%d claims, want the %d launched for the node", n, len(claims))
	}
}

// Nodes that go at the same time are planned for together: their pods share a new node.
func TestNodesGoTogether(t *testing.T) {
	t.Parallel()
	blocked, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	h := start(t, harnessOptions{
		objects: []runtime.Object{newNode("one", "4", nil), newNode("two", "4", nil), newNode("three", "4", nil)},
		prepare: func(l *testLauncher) {
			l.before = func() { once.Do(func() { close(blocked); <-goOn }) }
		},
	})
	for name, node := range map[string]string{"a": "one", "b": "two", "c": "three"} {
		h.pod(name, func(p *corev1.Pod) { p.Spec.NodeName = node })
	}
	h.eventually("the pods to be known", func() bool {
		nodes := h.sched.Cache.Dump().Nodes
		return !slices.ContainsFunc([]string{"one", "two", "three"}, func(name string) bool { return nodes[name] == nil || len(nodes[name].Pods) != 1 })
	})
	// While the planner waits for the launcher, questions gather; that the last one is answered says that all have come.
	h.pod("huge", func(p *corev1.Pod) { p.Spec.Containers = newPod("x", "15500m", "1Gi").Spec.Containers })
	<-blocked
	for node, pod := range map[string]string{"one": "uid-a", "two": "uid-b", "three": "uid-c"} {
		h.launcher.questions <- &api.Question{Id: node, Kind: &api.Question_MakeRoom{MakeRoom: &api.MakeRoom{
			NodeNames: []string{node}, Pods: []string{pod}, Purpose: api.Purpose_PURPOSE_TERMINATION,
		}}}
	}
	h.askBusy("last", "gone")
	close(goOn)
	named := map[string]int{}
	for range 3 {
		a := <-h.launcher.answers
		if len(a.GetMakeRoom().GetNodeClaims()) != 1 {
			t.Errorf("answer about %s: %v", a.GetId(), a.GetMakeRoom())
			continue
		}
		named[a.GetMakeRoom().GetNodeClaims()[0]]++
	}
	claims := h.launcher.claims()
	if len(claims) != 2 || named[claims[1].GetName()] != 3 || !slices.Equal(claims[1].GetReplaces(), []string{"one", "three", "two"}) {
		t.Errorf("launched %v, answered %v: want one node for the pods of all three", claims, named)
	}
}

func TestRoomForATerminationElsewhere(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("going", "4", nil), newNode("room", "4", nil)}})
	h.pod("a", func(p *corev1.Pod) { p.Spec.NodeName = "going" })
	h.eventually("the pod to be known", func() bool {
		info, ok := h.sched.Cache.Dump().Nodes["going"]
		return ok && len(info.Pods) == 1
	})
	a := h.going("going")
	if len(a.GetNodeClaims()) != 0 || a.GetNoRoom() != "" || len(h.launcher.claims()) != 0 {
		t.Errorf("answer %v, claims %v: there is room on another node", a, h.launcher.claims())
	}
}

// What cannot be planned is said, and keeps nothing else from being planned.
func TestRoomForWhatCanBePlanned(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("going", "4", nil), newNode("full", "100m", nil)}})
	h.pod("theirs", func(p *corev1.Pod) { p.Spec.NodeName, p.Spec.SchedulerName = "going", "volcano" })
	h.pod("ours", func(p *corev1.Pod) { p.Spec.NodeName = "going" })
	h.known("going", 2)
	q := &api.MakeRoom{NodeNames: []string{"gone", "going"}, Pods: []string{"uid-theirs", "uid-ours"}}
	const want = "node gone is not in the scheduler's cache; pod default/theirs is another scheduler's (volcano)"
	if a := h.move("move", q); a.GetNoRoom() != want || len(a.GetNodeClaims()) != 0 {
		t.Errorf("answer %v: a move has room for all its pods or for none", a)
	}
	h.launchedNothing()
	if a := h.terminates(q); a.GetNoRoom() != want || len(a.GetNodeClaims()) != 1 || h.launcher.podNames()["ours"] != 1 {
		t.Errorf("answer %v, launched for %v: want room for the one pod that can have it", a, h.launcher.podNames())
	}
}

// A newer launcher may ask what this scheduler does not know. It gets an answer all the same, at once, which is no yes.
func TestUnknownQuestions(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("n", "4", nil)}})
	if a := h.ask(&api.Question{Id: "kind"}); a.GetKind() != nil {
		t.Errorf("answer %v to a question of no kind", a)
	}
	q := &api.Question{Id: "purpose", Kind: &api.Question_MakeRoom{MakeRoom: &api.MakeRoom{NodeNames: []string{"n"}, Purpose: 77}}}
	if a := h.ask(q).GetMakeRoom(); a.GetNoRoom() != "nodes do not terminate for purpose 77" {
		t.Errorf("answer %v to a question for an unknown purpose", a)
	}
}

func TestResign(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{})
	if err := h.plugin.Resign(h.ctx); err != nil {
		t.Fatal(err)
	}
	if !h.launcher.resigned {
		t.Error("the launcher does not know of it")
	}
}
