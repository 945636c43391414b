package leadership

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// conflictRetry is the pause after a conflicting change: the cache lags by less.
const conflictRetry = 100 * time.Millisecond

// Reconciler runs r while leading: each call waits for leadership first, so that r reads the current state. The end of leadership and a
// write conflict are not errors: r is called again.
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
