package nodepool_test

import (
	"strings"
	"testing"
	"time"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/nodepool"
)

// A declared cost that cannot be read is reported on the NodePool, which stays ready; the condition ends with the mistake.
func TestUnreadableNodeCost(t *testing.T) {
	pool := validPool(t)
	pool.Annotations = map[string]string{catalog.NodeCostAnnotation: "2 cents"}
	nodepool.SetConditions(t.Context(), pool, nodepool.Facts{Class: class(t, "ready")})
	got := pool.StatusConditions().Get(nodepool.ConditionNodeCost)
	if !got.IsFalse() || !strings.Contains(got.Message, "slipway.dev/node-cost") || !strings.Contains(got.Message, "2 cents") {
		t.Errorf("condition %+v", got)
	}
	pool.Annotations[catalog.NodeCostAnnotation] = "-0.02"
	nodepool.SetConditions(t.Context(), pool, nodepool.Facts{Class: class(t, "ready")})
	if got = pool.StatusConditions().Get(nodepool.ConditionNodeCost); !got.IsFalse() || !strings.Contains(got.Message, "-0.02") {
		t.Errorf("condition %+v of a negative cost", got)
	}
	pool.Annotations[catalog.BurstUseAnnotation] = "all"
	nodepool.SetConditions(t.Context(), pool, nodepool.Facts{Class: class(t, "ready")})
	got = pool.StatusConditions().Get(nodepool.ConditionNodeCost)
	if !got.IsFalse() || !strings.Contains(got.Message, "slipway.dev/burst-use") || !strings.Contains(got.Message, `"all"`) {
		t.Errorf("condition %+v", got)
	}
	before := got.LastTransitionTime
	if !pool.StatusConditions().Get("Ready").IsTrue() {
		t.Error("the NodePool is not ready")
	}
	time.Sleep(time.Millisecond)
	nodepool.SetConditions(t.Context(), pool, nodepool.Facts{Class: class(t, "ready")})
	if again := pool.StatusConditions().Get(nodepool.ConditionNodeCost); !again.LastTransitionTime.Equal(&before) {
		t.Errorf("a condition that did not change has another transition: %v, before %v", again.LastTransitionTime, before)
	}
	pool.Annotations[catalog.NodeCostAnnotation], pool.Annotations[catalog.BurstUseAnnotation] = "0.02", "40"
	nodepool.SetConditions(t.Context(), pool, nodepool.Facts{Class: class(t, "ready")})
	if got := pool.StatusConditions().Get(nodepool.ConditionNodeCost); got != nil {
		t.Errorf("condition %+v after the mistake is corrected", got)
	}
}

// So is what is to become of deletion costs.
func TestUnreadablePodDeletionCost(t *testing.T) {
	pool := validPool(t)
	pool.Annotations = map[string]string{catalog.DeletionCostAnnotation: "no"}
	nodepool.SetConditions(t.Context(), pool, nodepool.Facts{Class: class(t, "ready")})
	got := pool.StatusConditions().Get(nodepool.ConditionPodDeletionCost)
	if want := `metadata.annotations[slipway.dev/pod-deletion-cost]: "no": off is expected; pods get deletion costs`; !got.IsFalse() || got.Message != want {
		t.Errorf("%+v, want %s", got, want)
	}
	pool.Annotations[catalog.DeletionCostAnnotation] = catalog.DeletionCostOff
	nodepool.SetConditions(t.Context(), pool, nodepool.Facts{Class: class(t, "ready")})
	if got := pool.StatusConditions().Get(nodepool.ConditionPodDeletionCost); got != nil {
		t.Errorf("%+v", got)
	}
}

// A share that cannot be read is reported in the same way.
func TestUnreadableOnDemandShare(t *testing.T) {
	pool := validPool(t)
	pool.Annotations = map[string]string{catalog.OnDemandShareAnnotation: "a third"}
	nodepool.SetConditions(t.Context(), pool, nodepool.Facts{Class: class(t, "ready")})
	got := pool.StatusConditions().Get(nodepool.ConditionOnDemandShare)
	if !got.IsFalse() || !strings.Contains(got.Message, "slipway.dev/min-on-demand-share") || !strings.Contains(got.Message, "a third") {
		t.Errorf("condition %+v", got)
	}
	if !pool.StatusConditions().Get("Ready").IsTrue() {
		t.Error("the NodePool is not ready")
	}
	pool.Annotations[catalog.OnDemandShareAnnotation] = "33%"
	nodepool.SetConditions(t.Context(), pool, nodepool.Facts{Class: class(t, "ready")})
	if got := pool.StatusConditions().Get(nodepool.ConditionOnDemandShare); got != nil {
		t.Errorf("condition %+v after the mistake is corrected", got)
	}
}
