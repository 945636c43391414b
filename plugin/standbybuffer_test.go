package plugin_test

import (
	"fmt"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-k8s/slipway/launcher/api"
)

// standbyBuffer is a buffer of pods of 1.5 CPUs for those of app web, which sleeps.
func standbyBuffer(tb testing.TB, pods int32) *api.Buffer {
	tb.Helper()
	b := reservedBuffer(tb, pods)
	b.Standby = true
	return b
}

// placedOn returns how many pods were promised the NodeClaim after it was launched.
func (h *harness) placedOn(claim string) (n int) {
	for _, r := range h.launcher.requests() {
		for _, p := range r.GetPlacements() {
			if p.GetNodeClaim() == claim {
				n += len(p.GetPods())
			}
		}
	}
	return n
}

// The pods of a standby buffer have nodes of their own, whatever room others have. No pod is promised one but those that the buffer waits for. The first of
// these wakes it, and another is launched in its place.
func TestStandbyBuffer(t *testing.T) {
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("one", "3920m", bought("m7g.xlarge", "on-demand"))}})
	h.known("one", 0)
	if got := h.buffers("1", standbyBuffer(t, 1)).GetBuffers()[0]; got.GetExisting() != 0 || got.GetInFlight() != 1 {
		t.Fatalf("places %v", got)
	}
	first := h.launcher.claims()[0]
	if first.GetStandby() != standbyBuffer(t, 1).GetUid() || len(first.GetPods()) != 0 {
		t.Fatalf("launched %v", first)
	}
	h.buffers("2", standbyBuffer(t, 1))
	h.pod("huge", labeled("db", 3900, 0))
	h.eventually("the pod on the node that exists", func() bool { return h.nodeOf("huge") == "one" })
	h.pod("other", labeled("db", 1500, 0))
	h.eventually("a node for the other pod", func() bool { return h.launcher.podNames()["other"] == 1 })
	if n := len(h.launcher.claims()); n != 2 || h.launcher.claims()[1].GetStandby() != "" || h.placedOn(first.GetName()) != 0 {
		t.Errorf("%d NodeClaims, the second for standby buffer %q; %d pods were promised the first", n, h.launcher.claims()[1].GetStandby(), h.placedOn(first.GetName()))
	}
	h.pod("web", labeled("web", 1500, 0))
	h.eventually("the pod on the node that sleeps", func() bool { return h.placedOn(first.GetName()) == 1 })
	if got := h.buffers("3", standbyBuffer(t, 1)).GetBuffers()[0]; got.GetInFlight() != 1 || got.GetNodeClaims()[0] == first.GetName() {
		t.Errorf("after it was woken: %v", got)
	}
	if n := len(h.launcher.claims()); n != 3 || h.launcher.claims()[2].GetStandby() != first.GetStandby() {
		t.Errorf("%d NodeClaims, want one more for the buffer", n)
	}
}

// A standby buffer for which nothing is launched for now has what sleeps already.
func TestStandbyBufferThatWaits(t *testing.T) {
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("small", "100m", nil)}})
	waits := standbyBuffer(t, 1)
	waits.NoLaunch = true
	if got := h.buffers("1", waits).GetBuffers()[0]; got.GetInFlight() != 0 || got.GetNoRoom() == "" || len(h.launcher.claims()) != 0 {
		t.Errorf("places %v, %d NodeClaims", got, len(h.launcher.claims()))
	}
	if got := h.buffers("2", standbyBuffer(t, 1)).GetBuffers()[0]; got.GetInFlight() != 1 {
		t.Fatalf("after the wait: %v", got)
	}
	if got := h.buffers("3", waits).GetBuffers()[0]; got.GetInFlight() != 1 || got.GetNoRoom() != "" || len(h.launcher.claims()) != 1 {
		t.Errorf("waiting again: places %v, %d NodeClaims", got, len(h.launcher.claims()))
	}
}

// No node that sleeps is woken for a pod that is deleted while it is planned.
func TestNoNodeWakesForAPodThatGoesWhileItIsPlanned(t *testing.T) {
	t.Parallel()
	var h *harness
	var once sync.Once
	h = start(t, harnessOptions{
		objects: []runtime.Object{newNode("small", "100m", nil)},
		fault: func(p string, pod *corev1.Pod) {
			if p != "Plan" || pod.Name != "goes" {
				return
			}
			once.Do(func() {
				if err := h.client.CoreV1().Pods("default").Delete(h.ctx, "goes", metav1.DeleteOptions{}); err != nil {
					t.Error(err)
				}
				h.eventually("the informer to have seen it", func() bool {
					_, err := h.informer.Core().V1().Pods().Lister().Pods("default").Get("goes")
					return err != nil
				})
			})
		},
	})
	if got := h.buffers("1", standbyBuffer(t, 1)).GetBuffers()[0]; got.GetInFlight() != 1 {
		t.Fatalf("places %v", got)
	}
	sleeps := h.launcher.claims()[0].GetName()
	h.pod("goes", labeled("web", 1500, 0))
	h.eventually("the pod to be planned", func() bool { return h.metric("slipway_batches_total", "drained-and-complete") > 0 })
	h.pod("other", labeled("db", 1500, 0))
	h.eventually("a node for another pod", func() bool { return h.launcher.podNames()["other"] == 1 })
	if n := h.placedOn(sleeps); n != 0 {
		t.Errorf("%d pods that are gone wake the node", n)
	}
}

// A buffer that sleeps and one that is awake do not share their room.
func TestStandbyBesideReserved(t *testing.T) {
	h := start(t, harnessOptions{objects: []runtime.Object{newNode("one", "1930m", bought("m7g.large", "on-demand"))}})
	h.known("one", 0)
	awake := reservedBuffer(t, 1)
	awake.Name, awake.Uid = "awake", "awake"
	got := h.buffers("1", standbyBuffer(t, 2), awake).GetBuffers()
	if got[0].GetInFlight() != 2 || got[1].GetExisting() != 1 {
		t.Fatalf("places %v", got)
	}
	again := h.buffers("2", standbyBuffer(t, 2), awake).GetBuffers()
	if again[0].GetInFlight() != 2 || again[1].GetExisting() != 1 || len(h.launcher.claims()) != len(got[0].GetNodeClaims()) {
		t.Errorf("asked again: %v, %d NodeClaims", again, len(h.launcher.claims()))
	}
}

// One pod does not wake a large node where waiting costs less than that node costs more. Ten pods do, which need one as large.
func TestStandbyThatDoesNotPay(t *testing.T) {
	h := start(t, harnessOptions{args: []string{"batchIdle: 1m", "batchMax: 2m", "waitingCost: 1"}, objects: []runtime.Object{newNode("small", "100m", nil)}})
	large := buffer(t, "spare", 1, "15", func(s *corev1.PodTemplateSpec) { s.Labels = map[string]string{"app": "web"} })
	large.Takers, large.Standby = &api.Takers{Selector: "app=web"}, true
	if got := h.buffers("1", large).GetBuffers()[0]; got.GetInFlight() != 1 {
		t.Fatalf("places %v", got)
	}
	sleeps := h.launcher.claims()[0].GetName()
	h.pod("one", labeled("web", 1500, 0))
	h.eventually("a node for one pod", func() bool { return h.launcher.podNames()["one"] == 1 })
	if h.placedOn(sleeps) != 0 || len(h.launcher.claims()) != 2 || h.launcher.claims()[1].GetExpected().GetInstanceType() != "m7g.large" {
		t.Errorf("one pod: %d on the node that sleeps, launched %v", h.placedOn(sleeps), h.launcher.claims())
	}
	h.replicaSet("many", 10)
	for i := range 10 {
		h.pod(fmt.Sprintf("many-%d", i), func(p *corev1.Pod) {
			ownedBy("many")(p)
			labeled("web", 1500, 0)(p)
		})
	}
	h.eventually("ten pods on the node that sleeps", func() bool { return h.placedOn(sleeps) == 10 })
}

// The last of the plans that wake fewer nodes is weighed as well: of four nodes that sleep, three that do not pay stay asleep, and the one wakes that does.
func TestThreeThatDoNotPay(t *testing.T) {
	h := start(t, harnessOptions{args: []string{"batchIdle: 1m", "batchMax: 2m", "waitingCost: 1"}, objects: []runtime.Object{newNode("small", "100m", nil)}})
	var wanted []*api.Buffer
	for i, cpu := range []string{"15", "15", "15", "1500m"} {
		b := buffer(t, fmt.Sprint("spare-", i), 1, cpu, func(s *corev1.PodTemplateSpec) { s.Labels = map[string]string{"app": "web"} })
		b.Takers, b.Standby = &api.Takers{Selector: "app=web"}, true
		wanted = append(wanted, b)
	}
	cheap := ""
	for i, places := range h.buffers("1", wanted...).GetBuffers() {
		if places.GetInFlight() != 1 {
			t.Fatalf("places of buffer %d: %v", i, places)
		}
		cheap = places.GetNodeClaims()[0]
	}
	h.replicaSet("apart", 4)
	for i := range 4 {
		h.pod(fmt.Sprintf("apart-%d", i), func(p *corev1.Pod) {
			ownedBy("apart")(p)
			labeled("web", 1500, 0)(p)
			p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{
				TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: p.Labels},
			}}}}
		})
	}
	h.eventually("nodes for all pods", func() bool { return len(h.launcher.podNames()) == 4 })
	if h.placedOn(cheap) != 1 {
		t.Errorf("%d pods on the cheap node that sleeps, launched %v", h.placedOn(cheap), h.launcher.podNames())
	}
	for _, c := range h.launcher.claims()[:4] {
		if n := h.placedOn(c.GetName()); n != 0 && c.GetName() != cheap {
			t.Errorf("%d pods on %s, which is dear", n, c.GetName())
		}
	}
}
