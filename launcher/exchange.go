package launcher

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/disrupt"
	"github.com/slipway-k8s/slipway/launcher/repair"
	"github.com/slipway-k8s/slipway/launcher/roll"
	"github.com/slipway-k8s/slipway/launcher/static"
)

// exchange adds the controllers that replace nodes by new ones of the same kind: drifted, soon expiring and unhealthy ones.
func (l *Launcher) exchange(p parts) error {
	mgr, settings := l.manager, l.config.Settings
	roller, err := roll.New(roll.Config{
		Client: mgr.GetClient(), Pods: l.cache.Pods, Claims: l.cache.Claims, Guard: p.leader, Mover: exchanger{p.mover}, Events: l.recorders.karpenter, Metrics: p.voluntary,
		Window: settings.ExpiryWindow.Duration, DisruptBare: settings.DisruptBarePods, Ours: p.beside.ours,
	})
	if err != nil {
		return err
	}
	gates, err := ParseGates(settings.FeatureGates)
	if err != nil {
		return err
	}
	repairer, err := repair.New(repair.Config{
		Client: mgr.GetClient(), Guard: p.leader, Ender: p.terminator, Events: l.recorders.karpenter, Registerer: l.registerer,
		Enabled: gates.NodeRepair, Ours: p.beside.ours,
	})
	if err != nil {
		return err
	}
	return errors.Join(add(mgr, roller.Run), repairer.SetupWithManager(mgr), l.fixed(p, gates))
}

// fixed adds the loop that keeps the number of nodes of NodePools with spec.replicas, where its gate is on.
func (l *Launcher) fixed(p parts, gates Gates) error {
	if !gates.StaticCapacity {
		return nil
	}
	keeper, err := static.New(static.Config{
		Client: l.manager.GetClient(), Pods: l.cache.Pods, Reader: l.manager.GetAPIReader(), Guard: p.leader, Ender: p.terminator, Ledger: p.ledger,
		Metrics: p.voluntary, Events: l.recorders.slipway, Manages: p.beside.manages, Own: p.beside.own, DisruptBare: l.config.Settings.DisruptBarePods,
		Gate: p.health.Gate,
	})
	if err != nil {
		return err
	}
	return add(l.manager, keeper.Run)
}

// mover is the part of *disrupt.Executor that an exchanger needs.
type mover interface {
	Start(ctx context.Context, m disrupt.Move) error
	NotBefore(claim types.UID) time.Time
}

// exchanger moves single nodes, whatever their pods' new room costs.
type exchanger struct{ mover mover }

// Replace implements roll.Mover. Budgets have no reason for expiring nodes: their replacement counts as drift.
func (e exchanger) Replace(ctx context.Context, claim *karpv1.NodeClaim, why, message string) error {
	if time.Now().Before(e.mover.NotBefore(claim.UID)) {
		return roll.ErrBusy
	}
	err := e.mover.Start(ctx, disrupt.Move{
		Claims: []*karpv1.NodeClaim{claim}, Reason: karpv1.DisruptionReasonDrifted, Why: why, Message: message,
		Eventual: why == roll.Drifted && claim.Spec.TerminationGracePeriod != nil,
	})
	if errors.Is(err, disrupt.ErrMoving) || errors.Is(err, disrupt.ErrNotRunning) {
		return errors.Join(roll.ErrBusy, err)
	}
	return err
}
