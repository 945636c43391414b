package plugin_test

import (
	"math"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-k8s/slipway/launcher/api"
)

// labeled returns a pod of the app and that many thousandths of a CPU.
func labeled(app string, cpu int64, priority int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Labels = map[string]string{"app": app}
		p.Spec.Priority = &priority
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *milli(cpu)
	}
}

// reservedBuffer is a buffer of pods of 1.5 CPUs for those of app web.
func reservedBuffer(tb testing.TB, pods int32) *api.Buffer {
	tb.Helper()
	b := buffer(tb, "spare", pods, "1500m", func(s *corev1.PodTemplateSpec) { s.Labels = map[string]string{"app": "web"} })
	b.Takers = &api.Takers{Selector: "app=web"}
	return b
}

// The room of a reserved buffer is given to pods that its selector matches, and to no other, whatever its priority: that one has a node launched. What
// was taken is launched again.
func TestReservedBuffer(t *testing.T) {
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("one", "3920m", bought("m7g.xlarge", "on-demand"))}})
	h.known("one", 0)
	if got := h.buffers("1", reservedBuffer(t, 2)).GetBuffers()[0]; got.GetExisting() != 2 {
		t.Fatalf("places %v", got)
	}
	h.pod("urgent", labeled("db", 1000, math.MaxInt32))
	h.eventually("a node for the other pod", func() bool { return h.launcher.podNames()["urgent"] == 1 })
	h.pod("small", labeled("db", 900, 0))
	h.eventually("the pod beside the room", func() bool { return h.nodeOf("small") == "one" })
	h.pod("web-1", labeled("web", 1500, 0))
	h.eventually("the pod in the room", func() bool { return h.nodeOf("web-1") == "one" })
	h.pod("web-2", labeled("web", 1500, 0))
	h.eventually("the second pod in the room", func() bool { return h.nodeOf("web-2") == "one" })
	if h.nodeOf("urgent") != "" {
		t.Error("the other pod has the room")
	}
	launched := len(h.launcher.requests())
	if got := h.buffers("2", reservedBuffer(t, 2)).GetBuffers()[0]; got.GetExisting() != 0 || got.GetInFlight() != 2 {
		t.Errorf("after it was taken: %v", got)
	}
	if again := h.buffers("3", reservedBuffer(t, 2)).GetBuffers()[0]; again.GetInFlight() != 2 || len(h.launcher.requests()) != launched+1 {
		t.Errorf("%d launches, before %d; places %v", len(h.launcher.requests()), launched, again)
	}
}

// A pod that was kept off the room is tried again when the buffer has gone.
func TestRoomOfDeletedBuffer(t *testing.T) {
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("one", "1930m", nil)}, prepare: func(l *testLauncher) { l.pools, l.types = nil, nil }})
	h.known("one", 0)
	if got := h.buffers("1", reservedBuffer(t, 1)).GetBuffers()[0]; got.GetExisting() != 1 {
		t.Fatalf("places %v", got)
	}
	h.pod("other", labeled("db", 1500, 0))
	h.eventually("the reason", func() bool { return strings.Contains(h.message("other"), "reserved for pods that a buffer waits for") })
	h.buffers("2")
	h.eventually("the pod in the room that is free", func() bool { return h.nodeOf("other") == "one" })
}

// Other pods are not promised a node in flight that was launched for the buffer, and those of the buffer are.
func TestReservedBufferInFlight(t *testing.T) {
	h := start(t, harnessOptions{})
	if got := h.buffers("1", reservedBuffer(t, 1)).GetBuffers()[0]; got.GetInFlight() != 1 {
		t.Fatalf("places %v", got)
	}
	first := h.launcher.claims()[0].GetName()
	h.pod("other", labeled("db", 1500, 1000))
	h.eventually("a node for the other pod", func() bool { return h.launcher.podNames()["other"] == 1 })
	if n := len(h.launcher.claims()); n != 2 {
		t.Fatalf("%d NodeClaims, want one more for the pod that may not take the room", n)
	}
	h.pod("web", labeled("web", 1500, 0))
	h.eventually("the pod on the node in flight", func() bool {
		for _, r := range h.launcher.requests() {
			for _, p := range r.GetPlacements() {
				if p.GetNodeClaim() == first {
					return true
				}
			}
		}
		return false
	})
	if n := len(h.launcher.claims()); n != 2 {
		t.Errorf("%d NodeClaims, want 2: the buffer's node in flight has room for its pod", n)
	}
	if got := h.buffers("2", reservedBuffer(t, 1)).GetBuffers()[0]; got.GetInFlight() != 1 || len(h.launcher.claims()) != 3 {
		t.Errorf("%d NodeClaims, want one more in place of the room that was promised; places %v", len(h.launcher.claims()), got)
	}
}

// Pods of a priority may take the room as well, of any namespace. A selector that cannot be read keeps no room, and says so.
func TestReservedForPriority(t *testing.T) {
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("one", "1930m", bought("m7g.large", "on-demand"))}})
	h.known("one", 0)
	b, broken := reservedBuffer(t, 1), buffer(t, "broken", 1, "100m", nil)
	b.Takers = &api.Takers{Priority: new(int32(1000))}
	broken.Takers = &api.Takers{Selector: "a in ("}
	answer := h.buffers("1", b, broken)
	if got := answer.GetBuffers(); got[0].GetExisting() != 1 || got[1].GetExisting() != 0 || !strings.Contains(got[1].GetNoRoom(), "selector") {
		t.Fatalf("answer %v", answer)
	}
	h.pod("low", labeled("web", 1000, 999))
	h.eventually("a node for the pod of lower priority", func() bool { return h.launcher.podNames()["low"] == 1 })
	h.pod("high", labeled("db", 1000, 1000))
	h.eventually("the pod of the priority in the room", func() bool { return h.nodeOf("high") == "one" })
}

// A buffer that is whole has room for all pods, or for none, with the planner's reason.
func TestOneShotBufferIsWhole(t *testing.T) {
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("one", "1930m", nil)}, prepare: func(l *testLauncher) { l.pools, l.types = nil, nil }})
	h.known("one", 0)
	whole := reservedBuffer(t, 2)
	whole.Whole = true
	if got := h.buffers("1", whole).GetBuffers()[0]; got.GetExisting() != 0 || got.GetNoRoom() == "" || got.GetNoRoomReason() == "" {
		t.Errorf("two pods, room for one: %v", got)
	}
	whole.Pods = 1
	if got := h.buffers("2", whole).GetBuffers()[0]; got.GetExisting() != 1 || got.GetNoRoom() != "" {
		t.Errorf("one pod, room for one: %v", got)
	}
}

// All nodes of a buffer that is whole are launched. Of one that was whole once, what is lost is not.
func TestOneShotBufferIsLaunchedOnce(t *testing.T) {
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("one", "1930m", bought("m7g.large", "on-demand"))}})
	h.known("one", 0)
	b := reservedBuffer(t, 3)
	b.NoLaunch = true
	if got := h.buffers("1", b).GetBuffers()[0]; got.GetExisting() != 1 || got.GetInFlight() != 0 || got.GetNoRoomReason() != "NoRoomLeft" {
		t.Errorf("nothing may be launched: %v", got)
	}
	h.launchedNothing()
	b.NoLaunch, b.Whole = false, true
	if got := h.buffers("2", b).GetBuffers()[0]; got.GetExisting() != 1 || got.GetInFlight() != 2 || got.GetNoRoom() != "" {
		t.Errorf("whole: %v", got)
	}
}
