package join

import (
	"context"
	"fmt"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/finalizer"
)

// guarded reports whether a claim has the finalizer that keeps it until its instance has terminated.
func guarded(claim *karpv1.NodeClaim) bool {
	return finalizer.Guarded(claim)
}

// guard adds the finalizer to a claim. As in Karpenter every claim gets it (pkg/controllers/nodeclaim/lifecycle/controller.go): one that a
// user created, one that an older release launched, and one whose finalizer was removed.
func guard(ctx context.Context, api client.Client, claim *karpv1.NodeClaim) error {
	before := claim.DeepCopy()
	finalizer.Guard(claim)
	err := api.Patch(ctx, claim, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("adding the finalizer to NodeClaim %s: %w", claim.Name, err)
	}
	klog.FromContext(ctx).V(2).Info("Added the finalizer to NodeClaim", "nodeClaim", klog.KObj(claim))
	return nil
}
