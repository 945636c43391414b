package reclaim

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/announce"
	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/budget"
	"github.com/slipway-k8s/slipway/launcher/consolidate/calm"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership"
	"github.com/slipway-k8s/slipway/launcher/voluntary"
)

// Reason is Karpenter's label value for all disruptions of this package.
const Reason = "empty"

const (
	// busyTimeout is longer than the 5 s that the scheduler waits for the taint to reach its cache.
	busyTimeout = 7 * time.Second
	// retryBusy is when a node that the scheduler needs is checked again. The time doubles up to busyAtMost while the answer stays the same, as for a node
	// with reserved room: each check cordons the node.
	retryBusy, busyAtMost = 10 * time.Second, 2 * time.Minute
	// retryBudget is when the budgets of a NodePool that refused a node are checked again: another node may have ended. While they allow none at all,
	// retryClosed is: only a schedule opens them, or an edit, which is seen at once.
	retryBudget, retryClosed = 2 * time.Second, 10 * time.Second
	// statusEvery is the precision of status.lastPodEventTime: a write per pod would cost too much.
	statusEvery = 10 * time.Second
	workers     = 8
)

// Asker asks the scheduler.
type Asker interface {
	// Busy reports whether any pod is assumed, nominated or promised on a cordoned node, or a buffer has its room there, with a reason
	// for people. False means that the
	// scheduler will place no pod there. An error means that there was no answer.
	Busy(ctx context.Context, q *api.NodeBusy) (busy bool, reason string, err error)
}

// Ender terminates nodes; *terminate.Terminator is one.
type Ender interface {
	// Cordon makes a node unschedulable on behalf of by.
	Cordon(ctx context.Context, node, by string) error
	// Uncordon removes a cordon of the same by.
	Uncordon(ctx context.Context, node, by string) error
	// Begin starts the termination of a NodeClaim.
	Begin(ctx context.Context, claim *karpv1.NodeClaim, reason string) error
}

// Config holds the dependencies of a Reclaimer. Every field is required but the last two.
type Config struct {
	// Client reads from the cache, with the indexes of package index, and writes.
	Client client.Client
	// Pods reads pods from the cache.
	Pods index.Pods
	// Reader reads from the API server: the last check before a node terminates.
	Reader client.Reader
	// Guard allows effects only while this replica leads.
	Guard leadership.Guard
	// Asker asks the scheduler whether a node is free.
	Asker Asker
	// Ender terminates nodes.
	Ender Ender
	// Events records Karpenter's Events.
	Events announce.EventRecorder
	// Ledger assigns places in the budgets.
	Ledger *budget.Ledger
	// Metrics count the decisions.
	Metrics *voluntary.Metrics
	// Ours reports whether the launcher may terminate a claim: not if a running Karpenter manages it. Nil means that it may terminate all.
	Ours func(claim *karpv1.NodeClaim) bool
	// Needed returns why an empty node stays although no pod is on it; empty where nothing keeps it. Nil means that nothing keeps any.
	Needed func(claim *karpv1.NodeClaim) string
}

// Reclaimer removes empty nodes.
type Reclaimer struct {
	config Config
	events *podEvents

	mu sync.Mutex
	// kept holds when a claim whose node was needed may be checked again: the cordon and its removal are changes that would trigger a check
	// at once.
	kept map[types.UID]rest
	// full holds when the budgets that refused a node may be checked again: each check looks at the whole cluster.
	full map[place]time.Time
	// recorded are the Events about nodes that stay.
	recorded calm.Events
}

// rest is until when a node that was needed is not checked, for how long altogether, and why it was needed.
type rest struct {
	until time.Time
	wait  time.Duration
	why   string
}

// place is a place in the budgets of a NodePool. A node that is disrupted already, because it is not Ready, has one: budgets that are used up refuse
// the others alone.
type place struct {
	pool      string
	disrupted bool
}

// New returns a Reclaimer; SetupWithManager starts it.
func New(c Config) (*Reclaimer, error) {
	missing := c.Client == nil || c.Pods == nil || c.Reader == nil || c.Guard == nil || c.Asker == nil || c.Ender == nil
	if missing || c.Events == nil || c.Ledger == nil || c.Metrics == nil {
		return nil, errors.New("reclaim: Client, Pods, Reader, Guard, Asker, Ender, Events, Ledger and Metrics are required")
	}
	if c.Ours == nil {
		c.Ours = func(*karpv1.NodeClaim) bool { return true }
	}
	if c.Needed == nil {
		c.Needed = func(*karpv1.NodeClaim) string { return "" }
	}
	return &Reclaimer{config: c, events: newPodEvents(), kept: map[types.UID]rest{}, full: map[place]time.Time{}, recorded: calm.Events{}}, nil
}

// SetupWithManager registers the controller.
func (r *Reclaimer) SetupWithManager(mgr manager.Manager) error {
	return builder.ControllerManagedBy(mgr).Named("nodeclaim.reclaim").
		For(&karpv1.NodeClaim{}).
		Watches(&corev1.Pod{}, r.events.handler(r.config.Client, r.claimsOfNode)).
		Watches(&corev1.Node{}, nodeEvents{handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
			return r.claimsOfNode(ctx, o.GetName())
		}), r.events}).
		Watches(&karpv1.NodePool{}, handler.EnqueueRequestsFromMapFunc(r.claimsOfPool),
			builder.WithPredicates(index.PoolChanges())).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](100*time.Millisecond, 10*time.Second),
		}).
		Complete(reconcile.Func(r.Reconcile))
}

func (r *Reclaimer) claimsOfNode(ctx context.Context, nodeName string) []reconcile.Request {
	return r.claims(ctx, client.MatchingFields{index.ClaimNodeName: nodeName})
}

func (r *Reclaimer) claimsOfPool(ctx context.Context, o client.Object) []reconcile.Request {
	r.reopen(o.GetName())
	return r.claims(ctx, client.MatchingFields{index.ClaimNodePool: o.GetName()})
}

// claims lists the claims to check; if the cache fails, they are checked at the next change.
func (r *Reclaimer) claims(ctx context.Context, sel client.MatchingFields) []reconcile.Request {
	list := &karpv1.NodeClaimList{}
	if err := r.config.Client.List(ctx, list, sel, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	out := make([]reconcile.Request, 0, len(list.Items))
	for _, c := range list.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKey{Name: c.Name}})
	}
	return out
}

// Reconcile checks one NodeClaim.
func (r *Reclaimer) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	return leadership.Reconciler(r.config.Guard, r.reconcile)(ctx, req)
}

func (r *Reclaimer) reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	claim := &karpv1.NodeClaim{}
	if err := r.config.Client.Get(ctx, req.NamespacedName, claim, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if claim.DeletionTimestamp != nil {
		r.events.forget(claim.Status.NodeName)
		return reconcile.Result{}, nil
	}
	if claim.Status.NodeName == "" || !r.config.Ours(claim) {
		return reconcile.Result{}, nil
	}
	v, err := r.look(ctx, claim)
	if err != nil || v == nil {
		return reconcile.Result{}, err
	}
	decision := disruption.DecideEmpty(v.facts)
	if err := r.saveStatus(ctx, v, decision); err != nil {
		return reconcile.Result{}, err
	}
	wait := time.Duration(0)
	if !decision.At.IsZero() {
		wait = max(time.Until(decision.At), time.Millisecond)
	}
	if decision.Verdict == disruption.Reclaim {
		if wait = r.notBefore(v); wait <= 0 {
			if wait, err = r.reclaim(ctx, v); err != nil || wait == 0 {
				return reconcile.Result{}, err
			}
		}
	}
	if err := r.uncordon(ctx, v); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{RequeueAfter: wait}, nil
}

// uncordon removes the cordon that a crash or a new pod left on a node that stays for now.
func (r *Reclaimer) uncordon(ctx context.Context, v *view) error {
	if !v.cordonedByUs || r.config.Ledger.Held(v.claim.UID) {
		return nil
	}
	if err := r.config.Ender.Uncordon(ctx, v.node.Name, Reason); err != nil {
		return fmt.Errorf("reclaim NodeClaim %s: %w", v.claim.Name, err)
	}
	return nil
}
