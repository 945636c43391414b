package kubelets_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// A Deployment that is scaled to nothing and back, on the same nodes: its pods have no grace period, so that the API server removes them
// before their kubelets have stopped their containers, and yet the next ones start.
func TestBounce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "bounce")
	w.pool("bounce", nil)
	const n = 12
	w.deployment("web", n, w.spec("500m", 0, func(s *corev1.PodSpec) { s.TerminationGracePeriodSeconds = new(int64(0)) }))
	w.await(t, "the pods to run", func() bool { return w.running("web") == n })
	first := len(w.claims("bounce"))
	for range 3 {
		w.scale("web", 0)
		w.await(t, "the pods to be gone", func() bool { return w.running("web") == 0 })
		w.scale("web", n)
		w.await(t, "the pods to run again", func() bool { return w.running("web") == n })
	}
	w.noneFailed("web")
	if got := len(w.claims("bounce")); got != first {
		t.Errorf("%d nodes after the bounces, %d before", got, first)
	}
}

// scale sets a Deployment's replicas.
func (w *world) scale(name string, n int32) {
	w.t.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.name, Name: name}}
	if err := w.client.Get(w.t.Context(), client.ObjectKeyFromObject(d), d); err != nil {
		w.t.Fatal(err)
	}
	patch := client.MergeFrom(d.DeepCopy())
	d.Spec.Replicas = &n
	if err := w.client.Patch(w.t.Context(), d, patch); err != nil {
		w.t.Fatal(err)
	}
}
