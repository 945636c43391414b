package plan

import (
	"context"

	"github.com/slipway-k8s/slipway/plugin/plan/budget"
)

// MakeWithin is Make with so many units of work.
func MakeWithin(ctx context.Context, in Input, units int) Plan {
	in.budget = budget.New(ctx, units)
	return Make(ctx, in)
}
