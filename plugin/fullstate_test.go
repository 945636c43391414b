package plugin_test

import (
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/slipway-k8s/slipway/launcher/api"
)

// A launcher that dies in the middle of a launch has recorded all of it or nothing: the full state shows which.
func TestUnansweredLaunch(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{
		objects: []runtime.Object{newNode("full", "100m", nil)},
		prepare: func(l *testLauncher) { l.away = true },
	})
	h.pod("a", nil)
	h.eventually("a try", func() bool { return h.launcher.missed() > 1 })
	h.launcher.back()
	h.eventually("the launch", func() bool { return h.launcher.podNames()["a"] == 1 })
}

// What a launcher has recorded of a launch that it did not answer is not known before its next full state: until then the pods stay promised,
// whatever room there is elsewhere. Then those are free whose claims were not recorded.
func TestUnansweredLaunchKeepsItsPods(t *testing.T) {
	t.Parallel()
	opens := make(chan struct{})
	h := start(t, harnessOptions{
		objects: []runtime.Object{newNode("full", "100m", nil)},
		prepare: func(l *testLauncher) {
			l.unsaid = true
			l.refuse = func(c *api.Claim) *api.Result {
				if c.GetExpected().GetZone() == "us-east-1b" {
					return &api.Result{Name: c.GetName(), Reason: "NotRecorded"}
				}
				return nil
			}
		},
	})
	h.launcher.mu.Lock()
	h.launcher.opens = opens
	h.launcher.mu.Unlock()
	h.replicaSet("web", 2)
	for name, zone := range map[string]string{"kept": "us-east-1a", "lost": "us-east-1b"} {
		h.pod(name, func(p *corev1.Pod) {
			ownedBy("web")(p)
			p.Spec.NodeSelector = map[string]string{corev1.LabelTopologyZone: zone}
		})
	}
	h.eventually("a launch", func() bool { return len(h.launcher.requests()) > 0 })
	for _, zone := range []string{"us-east-1a", "us-east-1b"} {
		h.createNode(newNode("room-"+zone, "700m", map[string]string{corev1.LabelTopologyZone: zone}))
	}
	for _, name := range []string{"kept", "lost"} {
		h.eventually("the condition of "+name, func() bool { return strings.Contains(h.message(name), "the launcher did not answer") })
	}
	if n := h.bound(); n != 0 {
		t.Fatalf("%d pods were bound before it was known what is recorded", n)
	}
	close(opens)
	h.eventually("the pod whose claim was not recorded", func() bool { return h.nodeOf("lost") == "room-us-east-1b" })
	h.eventually("the condition of the other", func() bool { return strings.HasPrefix(h.message("kept"), "launching ") })
	if n := h.metric("slipway_released_pods_total", "unsent"); n != 1 {
		t.Errorf("%v pods were released", n)
	}
	if node := h.nodeOf("kept"); node != "" {
		t.Errorf("the pod of the recorded claim is on %s", node)
	}
}

// A pod that gets no node is held though the launcher does not answer the launch for others of its batch: it says why, and is planned again.
func TestUnansweredLaunchHoldsUnplacedPods(t *testing.T) {
	t.Parallel()
	h := start(t, harnessOptions{
		objects: []runtime.Object{newNode("full", "100m", nil)},
		prepare: func(l *testLauncher) { l.away = true },
	})
	h.replicaSet("web", 2)
	h.pod("any", ownedBy("web"))
	h.pod("amd", func(p *corev1.Pod) {
		ownedBy("web")(p)
		p.Spec.NodeSelector = map[string]string{"kubernetes.io/arch": "amd64"}
	})
	h.eventually("the reason", func() bool { return h.says("amd", "NodePool default") })
	if h.launcher.missed() == 0 {
		t.Error("no launch went unanswered")
	}
	h.launcher.back()
	h.launcher.offerAMD()
	h.eventually("a launch of what is offered since", func() bool { return h.launcher.podNames()["amd"] == 1 })
}

// A full state that was made while a launch was being recorded lacks its claims: their pods stay promised all the same, and are not
// planned for a second time.
func TestFullStateFromBeforeTheAnswer(t *testing.T) {
	t.Parallel()
	var once sync.Once
	h := start(t, harnessOptions{
		objects: []runtime.Object{newNode("full", "100m", nil)},
		prepare: func(l *testLauncher) {
			l.silent = true
			l.before = func() { once.Do(l.reconnect) }
		},
	})
	h.pod("a", nil)
	h.eventually("the launch", func() bool { return h.launcher.podNames()["a"] > 0 })
	// What the new stream sends next is applied after its full state.
	h.pod("amd", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"kubernetes.io/arch": "amd64"} })
	h.eventually("the reason", func() bool { return strings.Contains(h.message("amd"), "NodePool default") })
	h.launcher.offerAMD()
	h.eventually("a launch of what is offered since", func() bool { return h.launcher.podNames()["amd"] == 1 })
	if n := h.metric("slipway_released_pods_total", "unknown"); n != 0 {
		t.Errorf("%v promises were released because the launcher did not know them", n)
	}
	if n := h.launcher.podNames()["a"]; n != 1 {
		t.Errorf("the pod was launched for %d times", n)
	}
}
