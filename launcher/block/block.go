package block

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/announce"
	"github.com/slipway-k8s/slipway/launcher/leadership"
)

// Reason is the disruption reason of nodes whose Capacity Block ends.
const Reason = "capacity_block_expiring"

const (
	workers = 10
	// period is how often the end of a block is read, as in Karpenter: a block may be extended.
	period = time.Minute
)

// Blocks reads the ends of Capacity Blocks; cloud.Cloud does.
type Blocks interface {
	// BlockEnd returns when a Capacity Block ends; zero if there is no such block.
	BlockEnd(ctx context.Context, reservationID string) (time.Time, error)
}

// Ender terminates nodes; *terminate.Terminator is one.
type Ender interface {
	// Begin starts the termination of a NodeClaim.
	Begin(ctx context.Context, claim *karpv1.NodeClaim, reason string) error
}

// Config holds the dependencies of a Drains. Every field is required but Ours.
type Config struct {
	// Client reads from the cache.
	Client client.Client
	// Blocks reads the ends of Capacity Blocks.
	Blocks Blocks
	// Guard allows effects only while this process leads.
	Guard leadership.Guard
	// Ender terminates nodes.
	Ender Ender
	// Events records slipway's Events.
	Events announce.EventRecorder
	// Ours reports whether the launcher may terminate a claim: not if a running Karpenter manages it. Nil means that it may terminate all.
	Ours func(claim *karpv1.NodeClaim) bool
}

// Drains terminates the nodes of Capacity Blocks that end.
type Drains struct{ config Config }

// New returns a Drains; SetupWithManager starts it.
func New(c Config) (*Drains, error) {
	if c.Client == nil || c.Blocks == nil || c.Guard == nil || c.Ender == nil || c.Events == nil {
		return nil, errors.New("block: Client, Blocks, Guard, Ender and Events are required")
	}
	if c.Ours == nil {
		c.Ours = func(*karpv1.NodeClaim) bool { return true }
	}
	return &Drains{config: c}, nil
}

// SetupWithManager registers the controller.
func (d *Drains) SetupWithManager(mgr manager.Manager) error {
	inBlock := predicate.NewPredicateFuncs(func(o client.Object) bool {
		claim, ok := o.(*karpv1.NodeClaim)
		return ok && ReservationOf(claim) != ""
	})
	return builder.ControllerManagedBy(mgr).Named("capacityreservation.expiration").
		For(&karpv1.NodeClaim{}, builder.WithPredicates(inBlock)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(reconcile.Func(d.Reconcile))
}

// Reconcile terminates one NodeClaim if its Capacity Block ends.
func (d *Drains) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	return leadership.Reconciler(d.config.Guard, d.reconcile)(ctx, req)
}

func (d *Drains) reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	claim := &karpv1.NodeClaim{}
	if err := d.config.Client.Get(ctx, req.NamespacedName, claim); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	id := ReservationOf(claim)
	if id == "" {
		return reconcile.Result{}, nil
	}
	end, err := d.config.Blocks.BlockEnd(ctx, id)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("reading the end of the Capacity Block of NodeClaim %s: %w", claim.Name, err)
	}
	now := time.Now()
	decision := Decide(id, end, now)
	switch {
	case decision.Drain && d.config.Ours(claim):
		return reconcile.Result{}, d.drain(ctx, claim, decision.Message)
	case decision.Drain, decision.At.IsZero():
		return reconcile.Result{RequeueAfter: period}, nil
	}
	return reconcile.Result{RequeueAfter: min(decision.At.Sub(now), period)}, nil
}

// drain begins the termination of a claim. Package terminate plans room for its pods before the first eviction.
func (d *Drains) drain(ctx context.Context, claim *karpv1.NodeClaim, message string) error {
	klog.FromContext(ctx).Info("initiating delete for capacity block expiration", "nodeClaim", klog.KObj(claim), "node", claim.Status.NodeName,
		"capacity-reservation-id", ReservationOf(claim))
	if err := d.config.Ender.Begin(ctx, claim, Reason); err != nil {
		return fmt.Errorf("draining NodeClaim %s of a Capacity Block: %w", claim.Name, err)
	}
	d.config.Events.Eventf(claim, corev1.EventTypeWarning, "CapacityBlockExpiring", "%s", message)
	if claim.Status.NodeName != "" {
		node := &corev1.Node{}
		if err := d.config.Client.Get(ctx, client.ObjectKey{Name: claim.Status.NodeName}, node); err == nil {
			d.config.Events.Eventf(node, corev1.EventTypeWarning, "CapacityBlockExpiring", "%s", message)
		}
	}
	return nil
}
