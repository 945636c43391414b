package terminate

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/index"
)

// workers is the number per controller: each mostly waits for the API server.
const workers = 32

// SetupWithManager registers the two controllers and Run with the manager.
func (t *Terminator) SetupWithManager(mgr manager.Manager) error {
	deleting := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetDeletionTimestamp() != nil })
	claims, nodes := make(chan event.GenericEvent), make(chan event.GenericEvent)
	if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error { return t.forward(ctx, claims, nodes) })); err != nil {
		return err
	}
	if err := mgr.Add(manager.RunnableFunc(t.Run)); err != nil {
		return err
	}
	err := builder.ControllerManagedBy(mgr).Named("nodeclaim.termination").
		For(&karpv1.NodeClaim{}, builder.WithPredicates(deleting)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(t.claimsOfNode)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(t.claimsOfPod)).
		WatchesRawSource(source.Channel(claims, &handler.EnqueueRequestForObject{})).
		WithOptions(options()).
		Complete(reconcile.Func(t.ReconcileClaim))
	if err != nil {
		return err
	}
	return builder.ControllerManagedBy(mgr).Named("node.termination").
		For(&corev1.Node{}, builder.WithPredicates(deleting)).
		WatchesRawSource(source.Channel(nodes, &handler.EnqueueRequestForObject{})).
		WithOptions(options()).
		Complete(reconcile.Func(t.ReconcileNode))
}

func options() controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](100*time.Millisecond, 10*time.Second),
	}
}

// forward enqueues the objects whose instance has terminated, each in the queue of its kind.
func (t *Terminator) forward(ctx context.Context, claims, nodes chan<- event.GenericEvent) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case o := <-t.ends.over:
			out, object := claims, client.Object(&karpv1.NodeClaim{ObjectMeta: metav1.ObjectMeta{Name: o.claim}})
			if o.node != "" {
				out, object = nodes, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: o.node}}
			}
			select {
			case <-ctx.Done():
				return nil
			case out <- event.GenericEvent{Object: object}:
			}
		}
	}
}

func (t *Terminator) claimsOfNode(ctx context.Context, o client.Object) []reconcile.Request {
	node, ok := o.(*corev1.Node)
	if !ok || node.Spec.ProviderID == "" {
		return nil
	}
	return t.ending(ctx, client.MatchingFields{index.ClaimProviderID: node.Spec.ProviderID})
}

func (t *Terminator) claimsOfPod(ctx context.Context, o client.Object) []reconcile.Request {
	pod, ok := o.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return nil
	}
	return t.ending(ctx, client.MatchingFields{index.ClaimNodeName: pod.Spec.NodeName})
}

// ending lists the selected claims that are being deleted; if the cache fails, the periodic check covers them.
func (t *Terminator) ending(ctx context.Context, sel client.MatchingFields) []reconcile.Request {
	list := &karpv1.NodeClaimList{}
	if err := t.config.Client.List(ctx, list, sel, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp != nil {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return out
}
