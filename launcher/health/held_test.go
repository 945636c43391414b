package health_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// heldWorld is a world whose NodePool is held, with the goroutine of the Health. It is for a bubble of its own.
func heldWorld(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.fails("a")
	w.fails("b")
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	go func() { _ = w.health.Run(ctx) }()
	synctest.Wait()
	return w
}

// A replica that does not lead any more reports no NodePool as held: the one that leads knows.
func TestHeldPoolsAreTheLeadersToReport(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := heldWorld(t)
		held, failures := "slipway_nodepool_held", "slipway_node_join_failures_total"
		if n := testutil.CollectAndCount(w.registry, held); n != 1 {
			t.Errorf("%d series while leading, want one", n)
		}
		w.standby.Store(true)
		if n, counted := testutil.CollectAndCount(w.registry, held), testutil.CollectAndCount(w.registry, failures); n != 0 || counted == 0 {
			t.Errorf("%d series while another replica leads, and %d of failures, which stay", n, counted)
		}
	})
}

// heldIs checks what the metric says about the NodePool; "" for nothing.
func (w *world) heldIs(value string) {
	w.t.Helper()
	want := ""
	if value != "" {
		want = `
# HELP slipway_nodepool_held Whether a NodePool launches nothing (1), or one node at a time (0.5), because its nodes do not join. Without a value while another replica leads.
# TYPE slipway_nodepool_held gauge
slipway_nodepool_held{nodepool="default"} ` + value + "\n"
	}
	if err := testutil.GatherAndCompare(w.registry, strings.NewReader(want), "slipway_nodepool_held"); err != nil {
		w.t.Error(err)
	}
}

// The alert on held NodePools ends soon after its NodePool was edited or deleted, and one that is made under the same name has its series.
func TestHeldEndsWithItsCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := heldWorld(t)
		w.heldIs("1")
		pool := w.pool()
		pool.Generation++
		if err := w.api.Update(t.Context(), pool); err != nil {
			t.Fatal(err)
		}
		w.health.Gate(pool) // As the catalog asks, which has the edit.
		time.Sleep(2 * time.Second)
		synctest.Wait()
		w.heldIs("0")
		if err := w.api.Delete(t.Context(), w.pool()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		w.heldIs("")
		for _, uid := range []types.UID{"second", "third"} {
			next := &karpv1.NodePool{ObjectMeta: metav1.ObjectMeta{Name: "default", UID: uid, Generation: 1}}
			if err := errors.Join(client.IgnoreNotFound(w.api.Delete(t.Context(), next)), w.api.Create(t.Context(), next)); err != nil {
				t.Fatal(err)
			}
			w.health.Gate(w.pool())
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		w.heldIs("0")
		if n := testutil.CollectAndCount(w.registry, "slipway_prebind_rejected_total"); n != 6 {
			t.Errorf("%d series of rejections of a NodePool whose predecessor of the same name is gone, want 6", n)
		}
	})
}
