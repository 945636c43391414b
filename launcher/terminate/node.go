package terminate

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/finalizer"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership"
)

// ReconcileNode deletes the NodeClaim of a deleted Node. A Node without a NodeClaim is released once its instance has terminated, unless it is
// a running Karpenter's or another provider's.
func (t *Terminator) ReconcileNode(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	return leadership.Reconciler(t.config.Guard, t.reconcileNode)(ctx, req)
}

func (t *Terminator) reconcileNode(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	node := &corev1.Node{}
	if err := t.config.Client.Get(ctx, req.NamespacedName, node); err != nil {
		if client.IgnoreNotFound(err) == nil {
			t.ends.forgetOwner(owner{node: req.Name})
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if node.DeletionTimestamp == nil || !finalizer.Guarded(node) {
		return reconcile.Result{}, nil
	}
	claims, err := t.claimsOf(ctx, node)
	if err != nil {
		return reconcile.Result{}, err
	}
	if slices.ContainsFunc(claims, func(c karpv1.NodeClaim) bool { return !t.config.Ours(&c) }) {
		return reconcile.Result{RequeueAfter: foreignPeriod}, nil
	}
	for i := range claims {
		if err := t.config.deleteClaim(ctx, &claims[i]); err != nil {
			return reconcile.Result{}, err
		}
	}
	if len(claims) > 0 {
		return reconcile.Result{RequeueAfter: foreignPeriod}, nil // No event of the Node follows where the finalizer of its claim is removed by hand.
	}
	if !finalizer.Taken(node) {
		if node.Labels[catalog.LabelNodeClass] == "" {
			return reconcile.Result{}, nil // Another provider's, such as one of EKS Auto Mode.
		}
		if !t.config.Alone() {
			return reconcile.Result{RequeueAfter: foreignPeriod}, nil // Its Karpenter ends it, or stops and leaves it to the launcher.
		}
	}
	wait, err := t.endOrphan(ctx, node)
	if err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: wait}, nil
}

// claimsOf returns the claims of a Node. If the cache has none it asks the API server: releasing a Node by mistake would lose its pods.
func (t *Terminator) claimsOf(ctx context.Context, node *corev1.Node) ([]karpv1.NodeClaim, error) {
	list := &karpv1.NodeClaimList{}
	if err := t.config.Client.List(ctx, list, client.MatchingFields{index.ClaimProviderID: node.Spec.ProviderID}); err != nil {
		return nil, fmt.Errorf("listing NodeClaims of Node %s: %w", node.Name, err)
	}
	if len(list.Items) > 0 {
		return list.Items, nil
	}
	if err := t.config.Reader.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing NodeClaims: %w", err)
	}
	var out []karpv1.NodeClaim
	for _, c := range list.Items {
		if c.Status.ProviderID != "" && c.Status.ProviderID == node.Spec.ProviderID || c.Status.NodeName == node.Name && c.Status.ProviderID == "" {
			out = append(out, c)
		}
	}
	return out, nil
}

// endOrphan terminates the instance of a Node without a claim, its pods, and the Node.
func (t *Terminator) endOrphan(ctx context.Context, node *corev1.Node) (time.Duration, error) {
	s := &scope{nodes: []*corev1.Node{node}, now: time.Now()}
	id := index.InstanceID(node.Spec.ProviderID)
	if id != "" && !t.ends.end(id, owner{node: node.Name}, node) {
		return instancePeriod, t.patchNode(ctx, node.Name, func(n *corev1.Node) { leave(n, nil) })
	}
	if _, err := t.failPods(ctx, s); err != nil {
		return 0, err
	}
	if err := t.releaseNode(ctx, node); err != nil {
		return 0, err
	}
	t.ends.forget(id)
	return 0, nil
}
