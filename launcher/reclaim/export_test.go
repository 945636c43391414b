package reclaim

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// PodEvent is a pod's binding or removal, as the watch reports it.
func (r *Reclaimer) PodEvent(node string, at time.Time) { r.events.note(node, at) }

// PoolEvent is a change of a NodePool, as the watch reports it; it returns what is reconciled for it.
func (r *Reclaimer) PoolEvent(ctx context.Context, pool client.Object) []reconcile.Request {
	return r.claimsOfPool(ctx, pool)
}
