package machines

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/slipway-k8s/slipway/e2e/machines/instance"
)

// Mixed simulates the machines of managed node groups, which stand for nodes that slipway does not manage, and runs all
// others by another mode.
func Mixed(managed, others Mode) Mode { return mixed{managed, others} }

type mixed struct{ managed, others Mode }

// Run runs both modes until ctx ends or one fails.
func (m mixed) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return m.managed.Run(ctx) })
	group.Go(func() error { return m.others.Run(ctx) })
	return group.Wait()
}

// Machine runs a machine by its mode.
func (m mixed) Machine(ctx context.Context, i instance.Instance) error {
	if i.NodeGroup != "" {
		return m.managed.Machine(ctx, i)
	}
	return m.others.Machine(ctx, i)
}

// Discard removes what is left of a machine, by its mode.
func (m mixed) Discard(i instance.Instance) {
	if i.NodeGroup != "" {
		m.managed.Discard(i)
		return
	}
	m.others.Discard(i)
}
