package expire

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/leadership"
)

// Reason is the disruption reason of expired nodes, in Karpenter's metrics and conditions.
const Reason = "expired"

const (
	workers = 4
	// foreignPeriod is when a claim of a running Karpenter is checked again.
	foreignPeriod = time.Minute
)

// Ender terminates nodes; *terminate.Terminator is one.
type Ender interface {
	// Begin starts the termination of a NodeClaim.
	Begin(ctx context.Context, claim *karpv1.NodeClaim, reason string) error
}

// Config holds the dependencies of an Expiry. Every field is required but Ours.
type Config struct {
	// Client reads from the cache.
	Client client.Client
	// Guard allows effects only while this process leads.
	Guard leadership.Guard
	// Ender terminates nodes.
	Ender Ender
	// Ours reports whether the launcher may terminate a claim: not if a running Karpenter manages it. Nil means that it may
	// terminate all.
	Ours func(claim *karpv1.NodeClaim) bool
}

// Expiry deletes expired NodeClaims.
type Expiry struct{ config Config }

// New returns an Expiry; SetupWithManager starts it.
func New(c Config) (*Expiry, error) {
	if c.Client == nil || c.Guard == nil || c.Ender == nil {
		return nil, errors.New("expire: Client, Guard and Ender are required")
	}
	if c.Ours == nil {
		c.Ours = func(*karpv1.NodeClaim) bool { return true }
	}
	return &Expiry{config: c}, nil
}

// SetupWithManager registers the controller.
func (e *Expiry) SetupWithManager(mgr manager.Manager) error {
	return builder.ControllerManagedBy(mgr).Named("nodeclaim.expiration").
		For(&karpv1.NodeClaim{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(reconcile.Func(e.Reconcile))
}

// Reconcile deletes one NodeClaim if it has expired.
func (e *Expiry) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	return leadership.Reconciler(e.config.Guard, e.reconcile)(ctx, req)
}

func (e *Expiry) reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	claim := &karpv1.NodeClaim{}
	if err := e.config.Client.Get(ctx, req.NamespacedName, claim, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	now := time.Now()
	decision := Decide(claim, now)
	switch {
	case decision.At.IsZero():
		return reconcile.Result{}, nil
	case !decision.Expired:
		return reconcile.Result{RequeueAfter: decision.At.Sub(now)}, nil
	case !e.config.Ours(claim):
		return reconcile.Result{RequeueAfter: foreignPeriod}, nil
	}
	klog.FromContext(ctx).Info("disrupting node(s)", "reason", Reason, "nodeClaim", klog.KObj(claim), "node", claim.Status.NodeName, "decision", "delete")
	if err := e.config.Ender.Begin(ctx, claim, Reason); err != nil {
		return reconcile.Result{}, fmt.Errorf("expiring NodeClaim %s: %w", claim.Name, err)
	}
	return reconcile.Result{}, nil
}
