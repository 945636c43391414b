package launcher

import (
	"github.com/slipway-k8s/slipway/launcher/consolidate"
	"github.com/slipway-k8s/slipway/launcher/disrupt"
)

// mover carries out what those decide who take nodes away gracefully.
func (l *Launcher) mover(p parts) (*disrupt.Executor, error) {
	mgr := l.manager
	gates, err := ParseGates(l.config.Settings.FeatureGates)
	if err != nil {
		return nil, err
	}
	mover, err := disrupt.New(disrupt.Config{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Guard: p.leader, Asker: p.server, Ender: p.terminator, Ledger: p.ledger,
		Metrics: p.voluntary, Events: l.recorders.karpenter, SpotToSpot: gates.SpotToSpotConsolidation,
	})
	if err != nil {
		return nil, err
	}
	return mover, add(mgr, mover.Run)
}

// consolidation decides which nodes are worth giving up.
func (l *Launcher) consolidation(p parts) error {
	settings := l.config.Settings
	gates, err := ParseGates(settings.FeatureGates)
	if err != nil {
		return err
	}
	decider, err := consolidate.New(consolidate.Config{
		Client: l.manager.GetClient(), Guard: p.leader, Asker: p.server, Mover: p.mover, Ledger: p.ledger, Metrics: p.voluntary,
		Events: l.recorders.karpenter, Ours: p.beside.ours,
		Settings: consolidate.Settings{
			Period: settings.ConsolidationPeriod.Duration, Payback: settings.ConsolidationPayback.Duration,
			MinSaving: settings.ConsolidationMinSaving, NodeAge: settings.ConsolidationNodeAge.Duration,
			SpotToSpot: gates.SpotToSpotConsolidation,
		},
	})
	if err != nil {
		return err
	}
	return add(l.manager, decider.Run)
}
