package consolidate_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// empty creates a node without pods.
func (w *world) empty(name string) {
	w.t.Helper()
	w.node(name)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "web", Name: "pod-" + name}}
	if err := w.api.Delete(w.t.Context(), pod); err != nil {
		w.t.Fatal(err)
	}
}

// move makes a node one of another NodePool.
func (w *world) move(name, pool string) {
	w.t.Helper()
	claim := &karpv1.NodeClaim{}
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Name: "claim-" + name}, claim); err != nil {
		w.t.Fatal(err)
	}
	claim.Labels[karpv1.NodePoolLabelKey] = pool
	if err := w.api.Update(w.t.Context(), claim); err != nil {
		w.t.Fatal(err)
	}
}

// TestEligibleNodes checks that nodes without pods are counted as empty, unless a CapacityBuffer has room there, and those with pods as underutilized, unless
// their NodePool gives up empty nodes alone.
func TestEligibleNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		pool := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "frugal"}}
		pool.Spec.Disruption.ConsolidateAfter = karpv1.MustParseNillableDuration("30s")
		pool.Spec.Disruption.ConsolidationPolicy = karpv1.ConsolidationPolicyWhenEmpty
		w.create(pool)
		w.empty("c")
		w.empty("buffer")
		w.needed = "claim-buffer"
		w.node("d")
		w.move("d", "frugal")
		w.empty("e")
		w.move("e", "frugal")
		w.run(5 * time.Second) // One decision.
		if diff := cmp.Diff(map[string]int{"empty": 2, "underutilized": 2}, w.eligible); diff != "" {
			t.Errorf("eligible nodes (-want +got):\n%s", diff)
		}
	})
}
