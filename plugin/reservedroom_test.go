package plugin_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-k8s/slipway/launcher/api"
)

func (h *harness) nodeOf(pod string) string {
	h.t.Helper()
	p, err := h.client.CoreV1().Pods("default").Get(h.ctx, pod, metav1.GetOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	return p.Spec.NodeName
}

// asks creates a pod that asks for cpu.
func (h *harness) asks(name string, cpu int64, tweak func(*corev1.Pod)) {
	h.t.Helper()
	h.pod(name, func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *milli(cpu)
		if tweak != nil {
			tweak(p)
		}
	})
}

// pinnedTo has a pod wait for the node, since no other can be launched for it.
func pinnedTo(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"kubernetes.io/hostname": node} }
}

// goesAndLeaves has node going be given up: room is planned for its pod, and it takes no more.
func (h *harness) goesAndLeaves() {
	h.t.Helper()
	h.known("going", 1)
	if a := h.going("going"); len(a.GetNodeClaims()) != 0 || a.GetNoRoom() != "" {
		h.t.Fatalf("answer %v: there is room on another node", a)
	}
	h.updateNode(newNode("going", "4", nil, disrupted()))
	h.eventually("the taint to be seen", func() bool { return h.tainted("going") })
}

// The room that was planned on a running node for a pod that has to move is its replacement's: kube-scheduler places no other pod
// there, unless it fits beside it or has a higher priority.
func TestKeptRoomIsNotTaken(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("going", "4", nil), newNode("room", "1", nil), replicaSet("web", 1)}})
	h.on("going", "a")
	h.goesAndLeaves()
	h.asks("stranger", 500, nil)
	h.eventually("a node to be launched for the stranger", func() bool { return h.launcher.podNames()["stranger"] == 1 })
	h.asks("sibling", 500, func(p *corev1.Pod) { ownedBy("web")(p) })
	h.eventually("one for the other of its owner too, while none has left", func() bool { return h.launcher.podNames()["sibling"] == 1 })
	h.asks("waits", 500, pinnedTo("room"))
	h.eventually("the reason in the condition", func() bool {
		return strings.Contains(h.message("waits"), "room is reserved for pods of a node that terminates: cpu") && !strings.Contains(h.message("waits"), "default/a")
	})
	h.asks("small", 300, nil)
	h.eventually("a pod that fits beside it", func() bool { return h.nodeOf("small") == "room" })
	if err := h.client.CoreV1().Pods("default").Delete(h.ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.asks("replacement", 600, ownedBy("web"))
	h.eventually("the replacement", func() bool { return h.nodeOf("replacement") == "room" })
	if n := h.bound(); n != 2 {
		t.Errorf("%d pods are placed, want the small one and the replacement", n)
	}
	h.eventually("the room to be given up", func() bool {
		return !h.askBusy("busy", "going").GetBusy() && h.metric("slipway_replacement_pods_total", "") == 1
	})
}

// Kept with the room are its host port and the pods that it must not run beside: a pod that would take either goes elsewhere, whichever of
// them says so, and one that does not may come.
func TestKeptRoomKeepsPortsAndStrangersOff(t *testing.T) {
	t.Parallel()
	port := func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80, HostPort: 8080}}
	}
	alone := func(from string) func(p *corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"is": from}},
			}}}}
		}
	}
	is := func(what string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Labels = map[string]string{"is": what} }
	}
	for _, c := range []struct {
		name            string
		leaving, coming []func(*corev1.Pod)
		want            string
	}{
		{name: "a host port", leaving: []func(*corev1.Pod){port}, coming: []func(*corev1.Pod){port}, want: "host port 8080"},
		{
			name: "anti-affinity of the one that comes", leaving: []func(*corev1.Pod){is("old")}, coming: []func(*corev1.Pod){alone("old")},
			want: "its anti-affinity",
		},
		{
			name: "anti-affinity of the one that leaves", leaving: []func(*corev1.Pod){alone("new")}, coming: []func(*corev1.Pod){is("new")},
			want: "its anti-affinity",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			h := start(t, harnessOptions{objects: []runtime.Object{newNode("going", "4", nil), newNode("room", "4", nil), replicaSet("web", 1)}})
			with := func(tweaks []func(*corev1.Pod), more ...func(*corev1.Pod)) func(*corev1.Pod) {
				return func(p *corev1.Pod) {
					for _, tweak := range slices.Concat(more, tweaks) {
						tweak(p)
					}
				}
			}
			h.asks("a", 600, with(c.leaving, ownedBy("web"), func(p *corev1.Pod) { p.Spec.NodeName = "going" }))
			h.goesAndLeaves()
			h.asks("clashes", 100, with(c.coming, pinnedTo("room")))
			h.eventually("the reason in the condition", func() bool {
				return strings.Contains(h.message("clashes"), "room is reserved for pods of a node that terminates: "+c.want)
			})
			h.asks("other", 100, pinnedTo("room"))
			h.eventually("one that clashes with nothing", func() bool { return h.nodeOf("other") == "room" })
			if err := h.client.CoreV1().Pods("default").Delete(h.ctx, "a", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			h.asks("replacement", 600, with(c.leaving, ownedBy("web")))
			h.eventually("the replacement", func() bool { return h.nodeOf("replacement") == "room" })
		})
	}
}

// A pod of higher priority takes the room. The launcher gets other room when it asks again.
func TestKeptRoomGivesWayToPriority(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("going", "4", nil), newNode("room", "1", nil), replicaSet("web", 1)}})
	h.on("going", "a")
	h.goesAndLeaves()
	h.asks("urgent", 500, func(p *corev1.Pod) { p.Spec.Priority = new(int32(1000)) })
	h.eventually("the urgent pod", func() bool { return h.nodeOf("urgent") == "room" })
	h.known("room", 1)
	a := h.move("again", &api.MakeRoom{NodeNames: []string{"going"}, Pods: []string{"uid-a"}})
	if len(a.GetNodeClaims()) != 1 || a.GetNoRoom() != "" {
		t.Errorf("answer %v: the room is gone, another node is needed", a)
	}
}

// A pod that was kept off is tried again when the replacement has gone elsewhere.
func TestKeptRoomIsGivenBack(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("going", "4", nil), newNode("room", "1", nil), replicaSet("web", 1)}})
	h.on("going", "a")
	h.goesAndLeaves()
	h.asks("waits", 500, pinnedTo("room"))
	h.eventually("the pod to be kept off", func() bool { return strings.Contains(h.message("waits"), "room is reserved") })
	h.createNode(newNode("elsewhere", "1", nil))
	if err := h.client.CoreV1().Pods("default").Delete(h.ctx, "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.asks("replacement", 600, func(p *corev1.Pod) {
		ownedBy("web")(p)
		pinnedTo("elsewhere")(p)
	})
	h.eventually("the room to be free again", func() bool { return h.nodeOf("replacement") == "elsewhere" && h.nodeOf("waits") == "room" })
}

// A pod that is placed while the room is planned takes it: the move gets other room before the launcher is answered that it has any.
func TestRoomTakenWhileItIsPlanned(t *testing.T) {
	t.Parallel()
	var h *harness
	var once sync.Once
	h = start(t, harnessOptions{
		objects: []runtime.Object{newNode("going", "4", nil, disrupted()), newNode("room", "700m", nil), replicaSet("web", 2)},
		prepare: func(l *testLauncher) {
			l.before = func() {
				once.Do(func() {
					h.asks("stranger", 500, func(p *corev1.Pod) { p.Spec.NodeName = "room" })
					h.known("room", 1)
				})
			}
		},
	})
	h.on("going", "a")
	h.on("going", "b")
	h.known("going", 2)
	a := h.move("1", &api.MakeRoom{NodeNames: []string{"going"}, Pods: []string{"uid-a", "uid-b"}, Bound: &api.LaunchBound{MostPerHour: 1}})
	if a.GetNoRoom() != "" {
		t.Fatalf("answer %v", a)
	}
	if planned := h.launcher.podNames(); planned["a"] != 1 || planned["b"] != 1 {
		t.Errorf("launched for %v: one had room, which was taken, and both need a new node", planned)
	}
}

// Room for pods that move is planned on a node that leaves soon itself only where there is none else.
func TestNoRoomOnNodesThatLeaveSoon(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{
		newNode("going", "4", nil, disrupted()), newNode("drifted", "4", nil), replicaSet("web", 2),
	}})
	h.on("going", "a")
	h.known("going", 1)
	ask := func(id string, cpu int64) *api.MakeRoomAnswer {
		h.asks(id, cpu, func(p *corev1.Pod) {
			ownedBy("web")(p)
			p.Spec.NodeName = "going"
		})
		h.eventually("the pod to be known", func() bool { return len(h.sched.Cache.Dump().Nodes["going"].Pods) > 1 })
		return h.move(id, &api.MakeRoom{NodeNames: []string{"going"}, Pods: []string{"uid-" + id}, Avoid: []string{"going", "drifted"}})
	}
	if a := ask("b", 600); len(a.GetNodeClaims()) != 1 || a.GetNoRoom() != "" {
		t.Errorf("answer %v: want a new node rather than room on one that has drifted", a)
	}
	going := h.terminates(&api.MakeRoom{NodeNames: []string{"going"}, Pods: []string{"uid-a"}, Avoid: []string{"drifted"}})
	if len(going.GetNodeClaims()) != 1 || h.launcher.podNames()["a"] != 1 {
		t.Errorf("answer %v, launched for %v: want room on the new node", going, h.launcher.podNames())
	}
}

// replaced evicts three pods that have room on node stays, and waits until their replacements are bound. Node next is emptier.
func replaced(t *testing.T, fault func(string, *corev1.Pod)) *harness {
	t.Helper()
	h := start(t, harnessOptions{fault: fault, objects: []runtime.Object{
		newNode("going", "4", nil, disrupted()), newNode("next", "64", nil), newNode("stays", "4", nil), replicaSet("web", 3),
	}})
	h.asks("other", 1000, func(p *corev1.Pod) { p.Spec.NodeName = "stays" })
	q := &api.MakeRoom{NodeNames: []string{"going"}, Avoid: []string{"next"}}
	for _, name := range []string{"a", "b", "c"} {
		h.on("going", name)
		q.Pods = append(q.Pods, "uid-"+name)
	}
	h.known("going", 3)
	h.known("stays", 1)
	if a := h.move("1", q); len(a.GetNodeClaims()) != 0 || a.GetNoRoom() != "" {
		t.Fatalf("answer %v, want room on node stays", a)
	}
	for _, name := range []string{"a", "b", "c"} {
		if err := h.client.CoreV1().Pods("default").Delete(h.ctx, name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	h.known("going", 0)
	for _, name := range []string{"d", "e", "f"} {
		h.asks(name, 600, ownedBy("web"))
	}
	h.eventually("the replacements to be bound", func() bool { return h.bound() == 4 })
	return h
}

// Replacements go to the nodes where they have room, not to the emptiest one, which is the next one to go.
func TestReplacementsGoWhereTheyHaveRoom(t *testing.T) {
	t.Parallel()
	h := replaced(t, nil)
	for _, name := range []string{"d", "e", "f"} {
		if node := h.nodeOf(name); node != "stays" {
			t.Errorf("pod %s is on node %s, and has room on node stays", name, node)
		}
	}
	h.asks("g", 600, ownedBy("web"))
	h.eventually("one more pod of the ReplicaSet to be bound", func() bool { return h.bound() == 5 })
	if node := h.nodeOf("g"); node != "next" {
		t.Errorf("a pod for which nothing was reserved is on node %s", node)
	}
}

// A bug of ours leaves replacements to the scores of Kubernetes.
func TestPanicsInScoresLeaveSchedulingGoing(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"PreScore", "Score"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			h := replaced(t, func(p string, _ *corev1.Pod) {
				if p == point {
					panic("injected")
				}
			})
			if h.metric("slipway_plugin_panics_total", point) == 0 {
				t.Error("no panic was counted")
			}
		})
	}
}

// Where no new node can be had, the room of one that leaves soon will do.
func TestRoomOnNodesThatLeaveSoonIfNeedBe(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{objects: []runtime.Object{
		newNode("going", "64", nil, disrupted()), newNode("drifted", "64", nil), replicaSet("web", 1),
	}})
	h.asks("huge", 40_000, func(p *corev1.Pod) {
		ownedBy("web")(p)
		p.Spec.NodeName = "going"
	})
	h.known("going", 1)
	a := h.move("1", &api.MakeRoom{NodeNames: []string{"going"}, Pods: []string{"uid-huge"}, Avoid: []string{"drifted"}})
	if len(a.GetNodeClaims()) != 0 || a.GetNoRoom() != "" {
		t.Errorf("answer %v: there is room on the drifted node alone", a)
	}
}
