package e2e_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/scalein"
)

// A Deployment of 24 pods on eight nodes that gets nine replicas leaves whole nodes empty, by the ReplicaSet controller's own order and the deletion costs that its
// pods were bound with: nodes are removed without an eviction, in a NodePool that gives up empty nodes alone. The pods that are left are on three nodes at least.
func TestScaleInEmptiesNodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "ends-node-by-node")
	boot := w.hold(w.name)
	w.pool(w.name, func(p *karpv1.NodePool) {
		onlyTypes(p, "m6i.xlarge")
		require(p, karpv1.CapacityTypeLabelKey, "on-demand")
		p.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyWhenEmpty
		p.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("1s")
	})
	const before, after, each = 24, 9, 3
	web := w.deployment("web", before, w.podSpec("1", "1Gi", nil))
	w.awaitPromised(w.name, before)
	boot()
	w.awaitRunning(before)
	if n := len(w.claimsOf(w.name)); n != before/each {
		t.Fatalf("%d pods are on %d nodes", before, n)
	}
	for _, p := range w.pods() {
		if p.Object.Annotations[corev1.PodDeletionCost] == "" {
			t.Errorf("pod %s was bound without a deletion cost", p.Object.Name)
		}
	}
	w.scale(web, after)
	w.await(t, "nodes to be empty and removed", func() bool {
		on := map[string]bool{}
		for _, p := range w.pods() {
			if !p.Terminating.Seen() {
				on[p.Object.Spec.NodeName] = true
			}
		}
		return w.running() == after && len(on) == len(w.claimsOf(w.name))
	})
	// More than LastNodes pods may be kept for last: nodes are ready at one moment, and the cache shows a binding a moment later.
	if n := len(w.claimsOf(w.name)); n < scalein.LastNodes || n > after/each+scalein.LastNodes {
		t.Errorf("%d pods are left on %d nodes", after, n)
	}
	if n := len(w.pods()); n != before {
		t.Errorf("%d pods were created for %d replicas: some were evicted", n, before)
	}
}
