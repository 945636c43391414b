// Package leadershiptest provides a Guard for tests of the launcher's controllers, in place of a Lease.
package leadershiptest

import "context"

// Always implements leadership.Guard for tests: it always leads.
type Always struct{}

// Context returns a context that ends with ctx.
func (Always) Context(ctx context.Context) (context.Context, context.CancelFunc, bool) {
	ctx, cancel := context.WithCancel(ctx)
	return ctx, cancel, true
}

// Wait returns at once; its error is that of ctx.
func (a Always) Wait(ctx context.Context) (context.Context, context.CancelFunc, error) {
	ctx, cancel, _ := a.Context(ctx)
	return ctx, cancel, ctx.Err()
}
