package e2e_test

import (
	"testing"
	"time"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// AWS throttles, then answers nothing but errors: launches wait, and nothing is lost or bought twice.
func TestThrottledAWS(t *testing.T) {
	w := newWorld(t, "throttled")
	w.pool("throttled", func(p *karpv1.NodePool) { onlyTypes(p, "m6i.2xlarge") })
	w.await(t, "the NodePool to be Ready", func() bool {
		var pool karpv1.NodePool
		return w.client.Get(t.Context(), keyOf("throttled"), &pool) == nil && pool.StatusConditions().Root().IsTrue()
	})
	shared.AWS().Throttle(3 * time.Second)
	w.deployment("web", 4, w.podSpec("1", "1Gi", nil))
	w.awaitRunning(4)
	shared.AWS().Down(3 * time.Second)
	w.deployment("more", 4, w.podSpec("1", "1Gi", nil))
	w.awaitRunning(8)
	checkOneInstanceEach(t, w, "throttled")
	if n := len(w.everClaimed("throttled")); n > 2 {
		t.Errorf("%d NodeClaims for 8 pods that fit two nodes", n)
	}
}

// The launcher is gone for a while: pods still go to nodes that have room, and what needs a node is planned when it is back.
func TestLauncherAway(t *testing.T) {
	w := newWorld(t, "away")
	w.pool("away", func(p *karpv1.NodePool) { onlyTypes(p, "m6i.2xlarge") })
	d := w.deployment("web", 2, w.podSpec("1", "1Gi", nil))
	w.awaitRunning(2)
	for range 3 {
		w.kill("launcher")
	}
	w.scale(d, 4)
	w.awaitRunning(4)
	w.scale(d, 10)
	w.awaitRunning(10)
	checkOneInstanceEach(t, w, "away")
}
