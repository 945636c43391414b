package reclaim

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// What pods did on a node is known until the Node goes, and nothing of nodes that are gone is left: neither by their last pods, which go after them.
func TestEventsOfDeletedNodesAreForgotten(t *testing.T) {
	claims := func(_ context.Context, node string) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: "claim-of-" + node}}}
	}
	events, api := newPodEvents(), fake.NewClientBuilder().WithScheme(scheme.Scheme).Build()
	pods := events.handler(api, claims)
	nodes := nodeEvents{handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request { return claims(ctx, o.GetName()) }), events}
	requests := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer requests.ShutDown()
	for _, name := range []string{"a", "b", "c"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, CreationTimestamp: metav1.Now()}, Spec: corev1.PodSpec{NodeName: name}}
		if err := api.Create(t.Context(), node); err != nil {
			t.Fatal(err)
		}
		pods.Create(t.Context(), event.CreateEvent{Object: pod}, requests)
		if len(events.last) != 1 || events.of(name).IsZero() {
			t.Errorf("the events of nodes %v are known, want %s", events.last, name)
		}
		before := events.of(name)
		time.Sleep(time.Millisecond)
		pods.Delete(t.Context(), event.DeleteEvent{Object: pod}, requests)
		if !events.of(name).After(before) {
			t.Errorf("the removal of a pod from node %s is not known", name)
		}
		if err := api.Delete(t.Context(), node); err != nil {
			t.Fatal(err)
		}
		nodes.Delete(t.Context(), event.DeleteEvent{Object: node}, requests)
		pods.Delete(t.Context(), event.DeleteEvent{Object: pod}, requests)
		if len(events.last) != 0 {
			t.Errorf("the events of nodes %v are known after the deletion of %s", events.last, name)
		}
	}
	if n := requests.Len(); n != 3 {
		t.Errorf("%d claims are looked at, want 3", n)
	}
}
