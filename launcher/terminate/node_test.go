package terminate_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// alone reconciles the Node for a duration, only when it asks for it: no event comes.
func (w *world) alone(ctx context.Context, duration time.Duration) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { _ = w.subject.Run(ctx) }()
	for end := time.Now().Add(duration); time.Now().Before(end); {
		result, err := w.subject.ReconcileNode(ctx, reconcile.Request{NamespacedName: client.ObjectKey{Name: nodeName}})
		if err != nil {
			w.t.Fatal(err)
		}
		if result.RequeueAfter == 0 {
			return
		}
		time.Sleep(result.RequeueAfter)
	}
}

// A NodeClaim whose finalizer is removed during the drain vanishes at once. The kubelet of its Node may be dead: no event of the Node follows.
func TestNodeEndsWithoutEventsOnceItsClaimVanishes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.addClaim(t.Context(), &datadriven.TestData{})
		w.changeNode(t.Context(), "delete")
		time.AfterFunc(30*time.Second, func() { w.strip(t.Context()) })
		w.alone(t.Context(), 5*time.Minute)
		err := w.api.Get(t.Context(), client.ObjectKey{Name: nodeName}, &corev1.Node{})
		if live := w.ec2.Live(); client.IgnoreNotFound(err) != nil || err == nil || len(live) > 0 {
			t.Errorf("Node: %v, live instances: %v", err, live)
		}
		synctest.Wait()
	})
}
