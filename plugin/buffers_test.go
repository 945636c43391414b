package plugin_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-k8s/slipway/launcher/api"
)

// buffered asks for room for a buffer of pods of that many CPUs; tweak adapts the template.
func (h *harness) buffered(id string, pods int32, cpu string, tweak func(*corev1.PodTemplateSpec)) *api.BufferPlaces {
	h.t.Helper()
	a := h.buffers(id, buffer(h.t, "spare", pods, cpu, tweak))
	if len(a.GetBuffers()) != 1 || a.GetMessage() != "" {
		h.t.Fatalf("answer %v", a)
	}
	return a.GetBuffers()[0]
}

func (h *harness) buffers(id string, buffers ...*api.Buffer) *api.PlaceBuffersAnswer {
	h.t.Helper()
	q := &api.PlaceBuffers{Namespace: "default", Namespaces: []string{"default"}, Buffers: buffers}
	return h.ask(&api.Question{Id: id, Kind: &api.Question_PlaceBuffers{PlaceBuffers: q}}).GetPlaceBuffers()
}

func buffer(tb testing.TB, name string, pods int32, cpu string, tweak func(*corev1.PodTemplateSpec)) *api.Buffer {
	tb.Helper()
	template := corev1.PodTemplateSpec{Spec: newPod("", cpu, "512Mi").Spec}
	if tweak != nil {
		tweak(&template)
	}
	text, err := template.Marshal()
	if err != nil {
		tb.Fatal(err)
	}
	return &api.Buffer{Name: name, Uid: "uid-" + name, Pods: pods, Template: text}
}

// The pods of a buffer have room on a node that exists first, and nodes are launched for the others, whose claims name no pods. Asked again,
// nothing more is launched.
func TestBufferIsPlaced(t *testing.T) {
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("one", "1930m", bought("m7g.large", "on-demand"))}})
	h.known("one", 0)
	got := h.buffered("1", 3, "1500m", nil)
	if got.GetExisting() != 1 || got.GetInFlight() != 2 || !slices.Equal(got.GetNodeNames(), []string{"one"}) || got.GetNoRoom() != "" {
		t.Errorf("places %v", got)
	}
	first := h.launcher.requests()[0]
	if first.GetPurpose() != api.Purpose_PURPOSE_BUFFER || len(h.launcher.podNames()) != 0 || len(got.GetLaunched()) != len(first.GetClaims()) {
		t.Errorf("launch %v, places %v", first, got)
	}
	again := h.buffered("2", 3, "1500m", nil)
	if n := len(h.launcher.requests()); n != 1 || again.GetExisting() != 1 || again.GetInFlight() != 2 || len(again.GetLaunched()) != 0 {
		t.Errorf("%d launches, places %v", n, again)
	}
	// A smaller buffer keeps the node that exists.
	if less := h.buffered("3", 1, "1500m", nil); less.GetExisting() != 1 || less.GetInFlight() != 0 {
		t.Errorf("places %v", less)
	}
	if h.bound() != 0 {
		t.Error("a pod of the buffer exists")
	}
}

// The room of a buffer keeps its node: an empty node may only be taken away when no buffer has its room there.
func TestRoomOfBufferIsBusy(t *testing.T) {
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("one", "1930m", bought("m7g.large", "on-demand")), newNode("other", "100m", nil, disrupted())}})
	h.known("one", 0)
	if got := h.buffered("1", 1, "1500m", nil); !slices.Equal(got.GetNodeNames(), []string{"one"}) {
		t.Fatalf("places %v", got)
	}
	h.updateNode(newNode("one", "1930m", bought("m7g.large", "on-demand"), disrupted()))
	h.eventually("the taint to be seen", func() bool { return h.tainted("one") })
	if a := h.askBusy("2", "one"); !a.GetBusy() || !strings.Contains(a.GetReason(), "capacity buffer") {
		t.Errorf("a node with the room of a buffer: %v", a)
	}
	if a := h.askBusy("3", "other"); a.GetBusy() {
		t.Errorf("a node without: %v", a)
	}
	q := &api.Question{Id: "4", Kind: &api.Question_NodeBusy{NodeBusy: &api.NodeBusy{NodeName: "one", BuffersMove: true}}}
	if a := h.ask(q).GetNodeBusy(); a.GetBusy() {
		t.Errorf("a node whose buffer moves with it: %v", a)
	}
}

// The node of a buffer or of a promised pod may join before the planner knows the name of its Node: the launcher is not let take it away as empty.
func TestRoomOnNodesThatHaveJustJoinedIsBusy(t *testing.T) {
	t.Parallel()
	for name, planned := range map[string]func(*harness){
		"buffer":       func(h *harness) { h.buffered("1", 1, "1500m", nil) },
		"promised pod": func(h *harness) { h.pod("web", nil) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := start(t, harnessOptions{objects: []runtime.Object{newNode("full", "100m", nil)}})
			h.known("full", 0)
			planned(h)
			h.eventually("a launch", func() bool { return len(h.launcher.claims()) == 1 })
			claim := h.launcher.claims()[0].GetName()
			h.createNode(ownedNode("ip-1", "15890m", claim, starting(), disrupted()))
			h.eventually("the node to be seen", func() bool { return h.tainted("ip-1") })
			if a := h.askBusy("2", "ip-1"); !a.GetBusy() {
				t.Errorf("the node of NodeClaim %s: %v", claim, a)
			}
		})
	}
}

// A pod takes the room of a buffer, which is launched again.
func TestPodTakesRoomOfBuffer(t *testing.T) {
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("one", "1930m", bought("m7g.large", "on-demand"))}})
	h.known("one", 0)
	if got := h.buffered("1", 1, "1500m", nil); got.GetExisting() != 1 {
		t.Fatalf("places %v", got)
	}
	h.pod("web", func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *milli(1500) })
	h.eventually("the pod to run where the buffer had room", func() bool { return h.bound() == 1 })
	h.known("one", 1)
	h.launchedNothing()
	if got := h.buffered("2", 1, "1500m", nil); got.GetExisting() != 0 || got.GetInFlight() != 1 {
		t.Errorf("places %v", got)
	}
}

// Nodes with pods take those of a buffer first, so that a node that is empty without them stays empty.
func TestBufferLeavesEmptyNodes(t *testing.T) {
	h := start(t, harnessOptions{objects: []runtime.Object{
		newNode("a-empty", "3920m", bought("m7g.xlarge", "on-demand")), newNode("b-busy", "3920m", bought("m7g.xlarge", "on-demand")), replicaSet("web", 1),
	}})
	h.on("b-busy", "web-0")
	h.known("b-busy", 1)
	if got := h.buffered("1", 2, "1500m", nil); !slices.Equal(got.GetNodeNames(), []string{"b-busy"}) {
		t.Errorf("places %v", got)
	}
}

// besideBuffers are two nodes with a pod of 600m each and a pod of 3 CPUs of a buffer.
func besideBuffers(t *testing.T) *harness {
	t.Helper()
	h := twoHalfEmpty(t)
	if got := h.buffered("0", 2, "3", nil); got.GetExisting() != 2 || len(got.GetNodeNames()) != 2 {
		t.Fatalf("places %v", got)
	}
	return h
}

// Pods that consolidation moves do not take the room of a buffer.
func TestConsolidationKeepsBuffers(t *testing.T) {
	h := besideBuffers(t)
	a := h.consolidate("1", "do-not-disrupt", 2)
	if len(a.GetMoves()) != 0 && len(a.GetMoves()[0].GetReplacements()) == 0 {
		t.Errorf("a pod moves into the room of a buffer: %v", a)
	}
	// Without the buffer it does.
	h.buffers("2")
	if m := onlyMove(t, h.consolidate("3", "do-not-disrupt", 2)); len(m.GetReplacements()) != 0 {
		t.Errorf("without the buffer: %v", m)
	}
	h.launchedNothing()
}

// The pods of a buffer move with their node: what is launched for the node's pods has room for both.
func TestMoveTakesBuffersAlong(t *testing.T) {
	h := besideBuffers(t)
	h.disrupt("one")
	if got := h.buffered("1", 2, "3", nil); got.GetExisting() != 1 || got.GetNoRoom() == "" || len(h.launcher.claims()) != 0 {
		t.Errorf("before the move asks for room: %v", got)
	}
	answer := h.move("2", &api.MakeRoom{NodeNames: []string{"one"}, Pods: []string{"uid-a"}})
	if answer.GetNoRoom() != "" || len(h.launcher.claims()) == 0 {
		t.Fatalf("answer %v", answer)
	}
	pods, cpu := 0, 0.0
	for _, c := range h.launcher.claims() {
		pods += len(c.GetPods())
		requests := resource.MustParse(c.GetRequests()["cpu"])
		cpu += requests.AsApproximateFloat64()
	}
	if pods != 1 || cpu < 3.5 {
		t.Errorf("%d pods and %.1f CPUs are launched for, want the pod that exists and 3.6 CPUs", pods, cpu)
	}
	if got := h.buffered("3", 2, "3", nil); got.GetExisting() != 1 || got.GetInFlight() != 1 || len(got.GetLaunched()) != 0 {
		t.Errorf("after the move: %v", got)
	}
}

// The pods of a buffer spread as their template says, also among themselves.
func TestBufferKeepsAntiAffinity(t *testing.T) {
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("one", "15", bought("m7g.4xlarge", "on-demand"))}})
	h.known("one", 0)
	got := h.buffered("1", 3, "100m", func(s *corev1.PodTemplateSpec) {
		s.Labels = map[string]string{"app": "apart"}
		s.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: s.Labels}},
		}}}
	})
	if got.GetExisting() != 1 || got.GetInFlight() != 2 || len(got.GetNodeClaims()) != 2 {
		t.Errorf("places %v", got)
	}
}

// What a tenant may write into a template neither keeps another buffer from room nor pods from theirs.
func TestHostileBuffers(t *testing.T) {
	h := start(t, harnessOptions{})
	apart := func(s *corev1.PodTemplateSpec) {
		s.Labels = map[string]string{"app": "apart"}
		var terms []corev1.PodAffinityTerm
		for i := range 120 {
			terms = append(terms, corev1.PodAffinityTerm{TopologyKey: fmt.Sprintf("example.com/key-%d", i), LabelSelector: &metav1.LabelSelector{MatchLabels: s.Labels}})
		}
		s.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
	}
	before := time.Now()
	a := h.buffers("1",
		buffer(t, "apart", 400, "10m", apart),
		buffer(t, "impossible", 100, "100k", nil),
		buffer(t, "nowhere", 100, "1", func(s *corev1.PodTemplateSpec) { s.Spec.NodeSelector = map[string]string{"example.com/none": "x"} }),
		&api.Buffer{Name: "broken", Uid: "uid-broken", Pods: 1, Template: []byte{0xff}},
		buffer(t, "negative", 1, "-1", nil),
		buffer(t, "good", 2, "1500m", nil),
	)
	took := time.Since(before)
	h.pod("web", nil)
	h.eventually("a launch for the pod", func() bool { return h.launcher.podNames()["web"] == 1 })
	t.Logf("planned for %s: %v", took, a)
	if len(a.GetBuffers()) != 6 {
		t.Fatalf("answer %v", a)
	}
	for _, p := range a.GetBuffers() {
		placed := p.GetExisting() + p.GetInFlight()
		switch p.GetUid() {
		case "uid-good":
			if placed != 2 {
				t.Errorf("good: %v", p)
			}
		case "uid-apart":
		default:
			if placed != 0 || p.GetNoRoom() == "" {
				t.Errorf("%s: %v", p.GetUid(), p)
			}
		}
	}
}

// A failure in our code about one buffer costs the others nothing.
func TestBufferThatCannotBePlanned(t *testing.T) {
	h := start(t, harnessOptions{fault: func(point string, pod *corev1.Pod) {
		if point == "Plan" && pod.Labels["fault"] != "" {
			panic("injected")
		}
	}})
	a := h.buffers("1", buffer(t, "bad", 1, "1", func(s *corev1.PodTemplateSpec) { s.Labels = map[string]string{"fault": "x"} }), buffer(t, "good", 1, "1", nil))
	if bad, good := a.GetBuffers()[0], a.GetBuffers()[1]; bad.GetNoRoom() == "" || bad.GetInFlight() != 0 || good.GetInFlight() != 1 {
		t.Errorf("answer %v", a)
	}
}

// The pods of a buffer are planned as admission would make them: with the requests of the namespace's LimitRange and the overhead of their
// RuntimeClass. A change of these is planned again.
func TestBufferIsAdmitted(t *testing.T) {
	ranges := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "cpu"}}
	ranges.Spec.Limits = []corev1.LimitRangeItem{{
		Type: corev1.LimitTypeContainer, Default: corev1.ResourceList{corev1.ResourceCPU: *milli(3000)}, DefaultRequest: corev1.ResourceList{corev1.ResourceCPU: *milli(3000)},
	}}
	class := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: "kata"}, Handler: "kata"}
	class.Overhead = &nodev1.Overhead{PodFixed: corev1.ResourceList{corev1.ResourceCPU: *milli(2000)}}
	h := start(t, harnessOptions{objects: []runtime.Object{ranges, class, newNode("one", "1930m", bought("m7g.large", "on-demand"))}})
	h.known("one", 0)
	bare := func(s *corev1.PodTemplateSpec) { s.Spec.Containers[0].Resources = corev1.ResourceRequirements{} }
	if got := h.buffered("1", 1, "1", bare); got.GetExisting() != 0 || got.GetInFlight() != 1 {
		t.Errorf("a pod of 3 CPUs by the LimitRange, on a node of 1.93: %v", got)
	}
	cpu := func() float64 {
		requests := resource.MustParse(h.launcher.claims()[len(h.launcher.claims())-1].GetRequests()["cpu"])
		return requests.AsApproximateFloat64()
	}
	if got := cpu(); got < 3 || got >= 4 {
		t.Errorf("the NodeClaim requests %.2f CPUs, want the 3 of the LimitRange", got)
	}
	overhead := func(s *corev1.PodTemplateSpec) { s.Spec.RuntimeClassName = new("kata") }
	if got := h.buffered("2", 1, "2", overhead); got.GetInFlight() != 1 || cpu() < 4 {
		t.Errorf("%v, the NodeClaim requests %.2f CPUs, want 2 and the 2 of the RuntimeClass", got, cpu())
	}
	if err := h.client.CoreV1().LimitRanges("default").Delete(t.Context(), "cpu", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	h.eventually("the pod without a request to fit the node", func() bool { return h.buffered("3", 1, "1", bare).GetExisting() == 1 })
}

// A buffer whose pods the API server would refuse gets no room, and says why. The others of its namespace do.
func TestBufferIsRefused(t *testing.T) {
	ranges := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "most"}}
	ranges.Spec.Limits = []corev1.LimitRangeItem{{Type: corev1.LimitTypeContainer, Max: corev1.ResourceList{corev1.ResourceCPU: *milli(2000)}}}
	h := start(t, harnessOptions{objects: []runtime.Object{ranges}})
	limited := func(cpu string, change func(*corev1.PodSpec)) func(*corev1.PodTemplateSpec) {
		return func(s *corev1.PodTemplateSpec) {
			s.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
			if change != nil {
				change(&s.Spec)
			}
		}
	}
	a := h.buffers("1",
		buffer(t, "beyond", 1, "1", limited("3", nil)),
		buffer(t, "classless", 1, "1", limited("2", func(s *corev1.PodSpec) { s.RuntimeClassName = new("none") })),
		buffer(t, "unranked", 1, "1", limited("2", func(s *corev1.PodSpec) { s.PriorityClassName = "none" })),
		buffer(t, "good", 1, "1", limited("2", nil)),
	)
	want := []string{"maximum cpu usage per Container is 2, but limit is 3", "RuntimeClass none is missing", "PriorityClass none is missing", ""}
	if len(a.GetBuffers()) != len(want) {
		t.Fatalf("answer %v", a)
	}
	for i, p := range a.GetBuffers() {
		if !strings.Contains(p.GetNoRoom(), want[i]) || (p.GetInFlight() == 1) != (want[i] == "") {
			t.Errorf("buffer %s: %v, want the reason %q", p.GetUid(), p, want[i])
		}
	}
}
