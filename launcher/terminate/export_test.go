package terminate

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/event"
)

// Remembered returns how many claims the Terminator remembers something of.
func (t *Terminator) Remembered() int {
	t.ahead.mu.Lock()
	defer t.ahead.mu.Unlock()
	t.progress.mu.Lock()
	defer t.progress.mu.Unlock()
	return len(t.ahead.byClaim) + len(t.progress.at)
}

// Forward enqueues the NodeClaims and Nodes whose instance has terminated, as the manager has it do.
func (t *Terminator) Forward(ctx context.Context, claims, nodes chan<- event.GenericEvent) error {
	return t.forward(ctx, claims, nodes)
}
