package e2e_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/e2e/observe"
)

// A NodePool with spec.replicas has that many nodes without any pod, and none are launched there for pods. Drifted nodes are replaced by
// adding nodes first, with never more NodeClaims than its limit. Scaled to zero it has none.
func TestStaticCapacity(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "static")
	w.pool("static", func(p *karpv1.NodePool) {
		onlyTypes(p, "m6i.large")
		p.Spec.Replicas, p.Spec.Limits = new(int64(2)), karpv1.Limits{"nodes": resource.MustParse("3")}
		p.Spec.Disruption.Budgets = []karpv1.Budget{{Nodes: "100%"}}
	})
	first := w.awaitFixed("static", 2)
	// Two pods fill two nodes, and the NodePool has no room for the third.
	d := w.deployment("web", 3, w.podSpec("1100m", "1Gi", nil))
	w.awaitRunning(2)
	w.changePool("static", func(p *karpv1.NodePool) { p.Spec.Replicas = new(int64(3)) })
	w.awaitRunning(3)
	if n := len(w.everClaimed("static")); n != 3 {
		t.Errorf("%d NodeClaims for 3 replicas: some were launched for pods", n)
	}
	w.scale(d, 1)
	w.changePool("static", func(p *karpv1.NodePool) {
		p.Spec.Replicas, p.Spec.Template.Annotations = new(int64(2)), map[string]string{"release": "next"}
	})
	w.await(t, "the first nodes to be replaced", func() bool {
		if n := len(w.claimsOf("static")); n > 3 {
			t.Errorf("%d NodeClaims where the limit is 3", n)
		}
		for _, c := range first {
			if !claimGone(w.cluster, c) {
				return false
			}
		}
		return len(w.fixed("static")) == 2 && w.running() == 1
	})
	w.scale(d, 0)
	w.changePool("static", func(p *karpv1.NodePool) { p.Spec.Replicas = new(int64(0)) })
	w.await(t, "the NodePool to have no node", func() bool { return len(w.claimsOf("static")) == 0 })
}

// fixed lists the initialized nodes of a pool that stay.
func (w *world) fixed(pool string) []observe.Claim {
	var out []observe.Claim
	for _, c := range w.claimsOf(pool) {
		if c.Initialized.Seen() && !c.Terminating.Seen() {
			out = append(out, c)
		}
	}
	return out
}

func (w *world) awaitFixed(pool string, n int) []observe.Claim {
	w.t.Helper()
	w.await(w.t, "the nodes of NodePool "+pool, func() bool { return len(w.fixed(pool)) == n && len(w.claimsOf(pool)) == n })
	return w.fixed(pool)
}

// changePool changes a NodePool's spec.
func (w *world) changePool(name string, change func(*karpv1.NodePool)) {
	w.t.Helper()
	err := persist(w.t.Context(), func() error {
		pool := &karpv1.NodePool{}
		if err := w.client.Get(w.t.Context(), keyOf(name), pool); err != nil {
			return err
		}
		before := pool.DeepCopy()
		change(pool)
		return w.client.Patch(w.t.Context(), pool, client.MergeFrom(before))
	})
	if err != nil {
		w.t.Fatal(err)
	}
}
