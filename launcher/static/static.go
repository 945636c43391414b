package static

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/announce"
	"github.com/slipway-k8s/slipway/launcher/budget"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/health"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership"
	"github.com/slipway-k8s/slipway/launcher/voluntary"
)

const (
	// period is the time between two passes.
	period = time.Second
	// lapse is how long after a pass the next one is the first of a new leadership.
	lapse = 10 * period
	// firstWait and lastWait bound the time between two creations while NodeClaims of earlier ones are lost: EC2 may have no capacity.
	firstWait = 2 * time.Second
	lastWait  = time.Minute
	// cacheWait is how long a pass waits for the cache to show what it created.
	cacheWait, cachePoll = 10 * time.Second, 10 * time.Millisecond
	// most is how many NodeClaims one pass creates for a NodePool.
	most = 100
	// eventEvery is the least time between two Events on a NodePool that its limit is reached.
	eventEvery = 15 * time.Minute
)

// Ender terminates nodes; *terminate.Terminator is one.
type Ender interface {
	// Begin starts the termination of a NodeClaim.
	Begin(ctx context.Context, claim *karpv1.NodeClaim, reason string) error
}

// Config holds the dependencies of a Keeper. Every field is required but DisruptBare.
type Config struct {
	// Client reads from the cache, with the indexes of package index, and writes.
	Client client.Client
	// Pods reads pods from the cache.
	Pods index.Pods
	// Reader reads from the API server.
	Reader client.Reader
	// Guard allows effects only while this process leads.
	Guard leadership.Guard
	// Ender terminates nodes.
	Ender Ender
	// Ledger assigns places in the budgets.
	Ledger *budget.Ledger
	// Metrics count the decisions.
	Metrics *voluntary.Metrics
	// Events records Events.
	Events announce.EventRecorder
	// Manages reports whether the launcher manages a NodePool, and if not, why.
	Manages func(pool *karpv1.NodePool) (ok bool, why string)
	// Own marks a new NodeClaim as slipway's while a Karpenter runs.
	Own func(claim *karpv1.NodeClaim)
	// Gate returns whether a NodePool may launch nodes now, and how many at a time: its nodes may not join.
	Gate func(pool *karpv1.NodePool) health.Gate
	// DisruptBare means that pods without a controller do not keep a node: they end with it.
	DisruptBare bool
}

// Keeper keeps the number of nodes of NodePools. It belongs to Run's goroutine.
type Keeper struct {
	config Config
	// gone are the NodeClaims whose termination was started, by NodePool: the cache may not show it yet.
	gone map[types.UID]map[types.UID]bool
	// created are the creations of NodeClaims, by NodePool, until all of its nodes are initialized.
	created map[types.UID]*creations
	// full is when the Event about the limit was recorded last, by NodePool.
	full map[types.UID]time.Time
	// reached is the last number of nodes that was asked for and not exceeded, by NodePool.
	reached map[types.UID]int64
	// compared are the NodePools of which this leadership has compared the cache's NodeClaims with the API server's.
	compared map[types.UID]bool
	// budgets reads PodDisruptionBudgets.
	budgets index.Budgets
	// passed is when the last pass ended: one that waits for the cache may take as long as lapse.
	passed time.Time
}

// New returns a Keeper; Run starts it.
func New(c Config) (*Keeper, error) {
	missing := c.Client == nil || c.Pods == nil || c.Reader == nil || c.Guard == nil || c.Ender == nil || c.Ledger == nil || c.Metrics == nil
	if missing || c.Events == nil || c.Manages == nil || c.Own == nil || c.Gate == nil {
		return nil, errors.New("static: Client, Pods, Reader, Guard, Ender, Ledger, Metrics, Events, Manages, Own and Gate are required")
	}
	return &Keeper{
		config: c, gone: map[types.UID]map[types.UID]bool{}, created: map[types.UID]*creations{}, full: map[types.UID]time.Time{}, reached: map[types.UID]int64{},
		compared: map[types.UID]bool{},
	}, nil
}

// Run makes one pass per period until ctx ends, while this process leads.
func (k *Keeper) Run(ctx context.Context) error {
	failed := func(err error) {
		klog.FromContext(ctx).Error(err, "Keeping the number of nodes of NodePools failed, will retry")
	}
	leadership.Every(ctx, k.config.Guard, period, failed, k.Pass)
	return nil
}

// Pass brings each NodePool with spec.replicas nearer to its number of nodes. ctx ends with leadership.
func (k *Keeper) Pass(ctx context.Context) error {
	if time.Since(k.passed) > lapse {
		clear(k.reached) // Another process may have led since.
		clear(k.compared)
	}
	defer func() { k.passed = time.Now() }()
	pools := &karpv1.NodePoolList{}
	if err := k.config.Client.List(ctx, pools, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing NodePools: %w", err)
	}
	var fixed []*karpv1.NodePool
	for i := range pools.Items {
		pool := &pools.Items[i]
		if pool.Spec.Replicas == nil || pool.DeletionTimestamp != nil {
			continue
		}
		if ok, _ := k.config.Manages(pool); ok {
			fixed = append(fixed, pool.DeepCopy())
		}
	}
	k.forget(fixed)
	if len(fixed) == 0 {
		return nil
	}
	allowed, err := k.config.Ledger.Allowed(ctx, karpv1.DisruptionReasonDrifted)
	if err != nil {
		return err
	}
	var errs []error
	for _, pool := range fixed {
		if err := k.keep(ctx, pool, allowed[karpv1.DisruptionReasonDrifted][pool.Name]); err != nil {
			errs = append(errs, fmt.Errorf("keeping %s of NodePool %s: %w", catalog.CountText(int(*pool.Spec.Replicas), "node"), pool.Name, err))
		}
	}
	return errors.Join(errs...)
}

// keep executes the decision about one NodePool.
func (k *Keeper) keep(ctx context.Context, pool *karpv1.NodePool, drifts int) error {
	facts, err := k.look(ctx, pool, drifts)
	if err != nil {
		return err
	}
	decision, now := Decide(facts), time.Now()
	created := k.created[pool.UID]
	created.look(facts.Nodes)
	if decision.Create == 0 && settled(facts) && !created.hidden() {
		delete(k.created, pool.UID)
	}
	if decision.Full && now.Sub(k.full[pool.UID]) > eventEvery {
		k.full[pool.UID] = now
		k.config.Events.Eventf(pool, corev1.EventTypeWarning, "NodeLimitReached", "spec.replicas is %d, limits.nodes of %d reached", facts.Replicas, facts.Limit)
	}
	for _, claim := range decision.Remove {
		if err := k.end(ctx, pool, claim, ScaledDown); err != nil {
			return err
		}
	}
	for _, claim := range decision.Replaced {
		err := k.config.Ledger.Reserve(ctx, karpv1.DisruptionReasonDrifted, claim)
		if _, refused := errors.AsType[*budget.RefusedError](err); refused {
			return nil // The next pass asks again.
		}
		if err != nil {
			return err
		}
		if err := k.end(ctx, pool, claim, Drifted); err != nil {
			k.config.Ledger.Release(claim.UID)
			return err
		}
		k.config.Metrics.Decided(pool.Name, voluntary.Replace, Drifted, "")
	}
	return k.create(ctx, pool, facts.Nodes, min(decision.Create, passing(k.config.Gate(pool), facts)), now)
}

func (k *Keeper) end(ctx context.Context, pool *karpv1.NodePool, claim *karpv1.NodeClaim, reason string) error {
	klog.FromContext(ctx).Info("disrupting node(s)", "reason", reason, "nodeClaim", klog.KObj(claim), "node", claim.Status.NodeName,
		"nodePool", pool.Name, "replicas", *pool.Spec.Replicas, "decision", "delete")
	if err := k.config.Ender.Begin(ctx, claim, reason); err != nil {
		return fmt.Errorf("terminating NodeClaim %s: %w", claim.Name, err)
	}
	if k.gone[pool.UID] == nil {
		k.gone[pool.UID] = map[types.UID]bool{}
	}
	k.gone[pool.UID][claim.UID] = true
	k.created[pool.UID].ended(claim)
	return nil
}

// forget drops what is remembered of NodePools that are gone.
func (k *Keeper) forget(pools []*karpv1.NodePool) {
	known := map[types.UID]bool{}
	for _, pool := range pools {
		known[pool.UID] = true
	}
	maps.DeleteFunc(k.gone, func(uid types.UID, _ map[types.UID]bool) bool { return !known[uid] })
	maps.DeleteFunc(k.created, func(uid types.UID, _ *creations) bool { return !known[uid] })
	maps.DeleteFunc(k.full, func(uid types.UID, _ time.Time) bool { return !known[uid] })
	maps.DeleteFunc(k.reached, func(uid types.UID, _ int64) bool { return !known[uid] })
	maps.DeleteFunc(k.compared, func(uid types.UID, _ bool) bool { return !known[uid] })
}
