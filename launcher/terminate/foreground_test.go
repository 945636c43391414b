package terminate_test

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// foreground deletes the claim as kubectl delete --cascade=foreground does: the API server adds a finalizer, which the garbage
// collector removes once no dependent that blocks it is left.
func (w *world) foreground(ctx context.Context) {
	claim := w.claim(ctx)
	controllerutil.AddFinalizer(claim, metav1.FinalizerDeleteDependents)
	if err := w.api.Update(ctx, claim); err != nil {
		w.t.Fatal(err)
	}
	if err := w.api.Delete(ctx, claim); err != nil {
		w.t.Fatal(err)
	}
}

// strip removes our finalizer from the claim.
func (w *world) strip(ctx context.Context) {
	claim := w.claim(ctx)
	controllerutil.RemoveFinalizer(claim, karpv1.TerminationFinalizer)
	if err := w.api.Update(ctx, claim); err != nil {
		w.t.Fatal(err)
	}
}

// force sets the end of the grace period to a time long past.
func (w *world) force(ctx context.Context) {
	claim := w.claim(ctx)
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, karpv1.NodeClaimTerminationTimestampAnnotationKey, "1999-01-01T00:00:00Z")
	if err := w.api.Update(ctx, claim); err != nil {
		w.t.Fatal(err)
	}
}

// collectGarbage plays the garbage collector: the Node depends on its claim and blocks its deletion.
func (w *world) collectGarbage(ctx context.Context) {
	claim, node := &karpv1.NodeClaim{}, &corev1.Node{}
	if w.api.Get(ctx, client.ObjectKey{Name: claimName}, claim) != nil || claim.DeletionTimestamp == nil ||
		!slices.Contains(claim.Finalizers, metav1.FinalizerDeleteDependents) {
		return
	}
	var err error
	if w.api.Get(ctx, client.ObjectKey{Name: nodeName}, node) == nil {
		if node.DeletionTimestamp == nil {
			err = w.api.Delete(ctx, node)
		}
	} else {
		controllerutil.RemoveFinalizer(claim, metav1.FinalizerDeleteDependents)
		err = w.api.Update(ctx, claim)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}
