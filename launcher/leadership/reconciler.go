package leadership

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// conflictRetry is when something is looked at again that somebody else changed meanwhile: the cache is behind by less.
const conflictRetry = 100 * time.Millisecond

// Reconciler runs r while leading: each call waits for leadership first, so that r sees the state that it is to act on.
// Where leadership ends meanwhile, or a write was based on an old version, that is no error: r is called again.
func Reconciler(g Guard, r reconcile.Func) reconcile.Func {
	return func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
		effectCtx, cancel, err := g.Wait(ctx)
		if err != nil {
			return reconcile.Result{}, nil // The launcher is stopping.
		}
		defer cancel()
		result, err := r(effectCtx, req)
		lost := errors.Is(context.Cause(effectCtx), ErrLost)
		if err != nil && (lost || apierrors.IsConflict(err)) {
			return reconcile.Result{RequeueAfter: conflictRetry}, nil
		}
		return result, err
	}
}
