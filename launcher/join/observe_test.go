package join_test

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/join"
)

// The kubelet created the Node, and the launcher wrote its providerID. It reads its own write by name at once, while the index of the cache does not have
// it before the watch brings it.
func TestProviderIDThatTheIndexLacks(t *testing.T) {
	w := newWorld(t)
	w.claim(time.Minute)
	w.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}})
	w.kubelet("node-1", corev1.ConditionTrue)
	config := w.config()
	config.Client = interceptor.NewClient(w.api, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*corev1.NodeList); ok {
				return nil
			}
			return c.List(ctx, list, opts...)
		},
	})
	c, err := join.New(config)
	if err != nil {
		t.Fatal(err)
	}
	w.looks(c, 1)
	if n := w.node("node-1"); n.Spec.ProviderID != w.instance.ProviderID() {
		t.Fatalf("providerID %q", n.Spec.ProviderID)
	}
	w.looks(c, 3)
	if !w.current().StatusConditions().Get(karpv1.ConditionTypeInitialized).IsTrue() {
		t.Errorf("not initialized: %v", w.current().Status.Conditions)
	}
}
