package terminate

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/event"
)

// Forward enqueues the NodeClaims and Nodes whose instance has terminated, as the manager has it do.
func (t *Terminator) Forward(ctx context.Context, claims, nodes chan<- event.GenericEvent) error {
	return t.forward(ctx, claims, nodes)
}
