package nodepool_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// A pool with an unreadable part launches nothing, reports the reason, and keeps its hash: its nodes have not drifted.
func TestUnreadable(t *testing.T) {
	p := validPool(t)
	p.Annotations = map[string]string{catalog.UnreadableAnnotation: "spec.limits: no", karpv1.NodePoolHashAnnotationKey: "1"}
	c, api := newController(t, p, class(t, "ready"))
	if _, err := c.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(p)}); err != nil {
		t.Fatal(err)
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(p), p); err != nil {
		t.Fatal(err)
	}
	valid := p.StatusConditions().Get(karpv1.ConditionTypeValidationSucceeded)
	if p.StatusConditions().Root().IsTrue() || !valid.IsFalse() || !strings.Contains(valid.Message, "spec.limits: no") {
		t.Errorf("condition %+v", valid)
	}
	if p.Annotations[karpv1.NodePoolHashAnnotationKey] != "1" {
		t.Errorf("annotations %v", p.Annotations)
	}
}
