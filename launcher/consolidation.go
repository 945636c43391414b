package launcher

import (
	"context"
	"errors"
	"slices"
	"time"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/budget"
	"github.com/slipway-k8s/slipway/launcher/consolidate"
	"github.com/slipway-k8s/slipway/launcher/disrupt"
	"github.com/slipway-k8s/slipway/launcher/expire"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/roll"
	"github.com/slipway-k8s/slipway/launcher/voluntary"
)

// mover returns the executor of the moves that drift, expiry and consolidation decide.
func (l *Launcher) mover(p parts) (*disrupt.Executor, error) {
	mgr := l.manager
	gates, err := ParseGates(l.config.Settings.FeatureGates)
	if err != nil {
		return nil, err
	}
	mover, err := disrupt.New(disrupt.Config{
		Client: mgr.GetClient(), Pods: l.cache.Pods, Nodes: l.cache.Nodes, Reader: mgr.GetAPIReader(), Guard: p.leader, Asker: p.server, Ender: p.terminator, Ledger: p.ledger,
		Metrics: p.voluntary, Events: l.recorders.karpenter, SpotToSpot: gates.SpotToSpotConsolidation,
		DisruptBare: l.config.Settings.DisruptBarePods, Ours: p.beside.ours, Alone: p.beside.Alone,
	})
	if err != nil {
		return nil, err
	}
	return mover, add(mgr, mover.Run)
}

// counted reads what disruption budgets count.
func (l *Launcher) counted() budget.Observe {
	mgr := l.manager
	return voluntary.Observe(mgr.GetClient(), l.cache.Claims, l.cache.Nodes)
}

// leavingSoon returns the nodes that must not get pods that move: drifted ones, those that expire soon, terminating ones, and those of
// moves, whose cordons the scheduler may not have seen yet. Drifted nodes of a NodePool that holds its rollout stay, and have room for pods.
func leavingSoon(reader client.Reader, all index.Claims, window time.Duration, inMove func(node string) bool) func(context.Context) []string {
	return func(ctx context.Context) []string {
		pools := &karpv1.NodePoolList{}
		claims, err := all.All(ctx)
		if err := errors.Join(err, reader.List(ctx, pools, client.UnsafeDisableDeepCopy)); err != nil {
			klog.FromContext(ctx).V(2).Info("Nodes that terminate soon could not be listed, and may get pods that move", "err", err)
			return nil
		}
		var out []string
		r := rollouts{now: time.Now(), window: window, claims: map[string][]*karpv1.NodeClaim{}, pools: make(map[string]*karpv1.NodePool, len(pools.Items)), held: map[string]bool{}}
		for i := range pools.Items {
			r.pools[pools.Items[i].Name] = &pools.Items[i]
		}
		for _, c := range claims {
			name := c.Labels[karpv1.NodePoolLabelKey]
			r.claims[name] = append(r.claims[name], c)
		}
		for _, c := range claims {
			if c.Status.NodeName != "" && (c.DeletionTimestamp != nil || inMove(c.Status.NodeName) || r.replaces(c)) {
				out = append(out, c.Status.NodeName)
			}
		}
		slices.Sort(out)
		return out
	}
}

// rollouts is what is known of the replacements of drifted nodes, and of those that expire soon.
type rollouts struct {
	now time.Time
	// window is the setting of the soft window before an expiry.
	window time.Duration
	pools  map[string]*karpv1.NodePool
	// claims are those of each NodePool.
	claims map[string][]*karpv1.NodeClaim
	// held is whether no node of a NodePool may be replaced; a NodePool that was not asked for is missing.
	held map[string]bool
}

// replaces reports whether the node of the claim will be replaced soon. Its hard expiry needs no budget.
func (r *rollouts) replaces(c *karpv1.NodeClaim) bool {
	name := c.Labels[karpv1.NodePoolLabelKey]
	pool := r.pools[name]
	due := roll.DueOf(c, expire.Window(c, pool, r.window), r.now)
	switch end := expire.Decide(c, r.now).At; {
	case due.Why == "":
		return false
	case pool == nil, !end.IsZero() && end.Sub(r.now) <= r.window: // A drifted node ends then as well.
		return true
	}
	held, known := r.held[name]
	if !known {
		// How many nodes the NodePool has does not matter: percentages round up. An invalid budget allows none.
		allowed, err := disruption.AllowedDisruptions(pool, 1, karpv1.DisruptionReasonDrifted, r.now)
		held = err != nil || allowed == 0 || roll.Unproven(pool, r.claims[name], r.now) != ""
		r.held[name] = held
	}
	return !held
}

// consolidation returns the loop that decides which nodes are worth removing.
func (l *Launcher) consolidation(p parts) (*consolidate.Consolidator, error) {
	settings := l.config.Settings
	gates, err := ParseGates(settings.FeatureGates)
	if err != nil {
		return nil, err
	}
	var needed func(*karpv1.NodeClaim) string
	if gates.CapacityBuffer {
		needed = p.buffers.Needed
	}
	return consolidate.New(consolidate.Config{
		Client: l.manager.GetClient(), Cache: l.cache, Guard: p.leader, Asker: p.server, Mover: p.mover, Ledger: p.ledger, Metrics: p.voluntary,
		Events: l.recorders.karpenter, Ours: p.beside.ours, Needed: needed, Decided: p.decisions.Consolidated, Before: p.decisions.Recorded,
		Settings: consolidate.Settings{
			Period: settings.ConsolidationPeriod.Duration, Payback: settings.ConsolidationPayback.Duration,
			MinSaving: settings.ConsolidationMinSaving, NodeAge: settings.ConsolidationNodeAge.Duration,
			PodAge: settings.ConsolidationPodAge.Duration, SpotToSpot: gates.SpotToSpotConsolidation,
			DisruptBare: settings.DisruptBarePods,
		},
	})
}
