package consistency

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/announce"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/leadership"
	nodeobj "github.com/slipway-k8s/slipway/launcher/node"
)

const (
	// period is how often a node is compared, as in Karpenter.
	period  = 10 * time.Minute
	workers = 4
)

// ReasonFailed is the reason of the Event, reasonFalse that of the condition, both Karpenter's.
const (
	ReasonFailed = "FailedConsistencyCheck"
	reasonFalse  = "ConsistencyCheckFailed"
)

// Config holds the dependencies of a Controller. Every field is required but Ours.
type Config struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Guard allows effects only while this replica leads.
	Guard leadership.Guard
	// Events records Karpenter's Events.
	Events announce.EventRecorder
	// Ours reports whether the launcher manages a claim: not if a running Karpenter does. Nil means that it manages all.
	Ours func(claim *karpv1.NodeClaim) bool
}

// Controller writes the condition ConsistentStateFound.
type Controller struct {
	config Config

	mu sync.Mutex
	// scanned are the times of the last comparisons, by name of the claim.
	scanned map[string]scan
}

type scan struct {
	uid types.UID
	at  time.Time
}

// New returns a Controller; SetupWithManager starts it.
func New(c Config) (*Controller, error) {
	if c.Client == nil || c.Guard == nil || c.Events == nil {
		return nil, errors.New("consistency: Client, Guard and Events are required")
	}
	if c.Ours == nil {
		c.Ours = func(*karpv1.NodeClaim) bool { return true }
	}
	return &Controller{config: c, scanned: map[string]scan{}}, nil
}

// SetupWithManager registers the controller.
func (c *Controller) SetupWithManager(mgr manager.Manager) error {
	return builder.ControllerManagedBy(mgr).Named("nodeclaim.consistency").
		For(&karpv1.NodeClaim{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(reconcile.Func(c.Reconcile))
}

// Reconcile compares one claim with its node, every ten minutes.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	return leadership.Reconciler(c.config.Guard, c.reconcile)(ctx, req)
}

func (c *Controller) reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	claim := &karpv1.NodeClaim{}
	if err := c.config.Client.Get(ctx, req.NamespacedName, claim, client.UnsafeDisableDeepCopy); err != nil {
		c.forget(req.Name)
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !conditions.ClaimIs(claim, karpv1.ConditionTypeInitialized) || claim.Status.NodeName == "" || !c.config.Ours(claim) {
		return reconcile.Result{}, nil // The claim changes when its node is initialized.
	}
	if left := c.due(claim); left > 0 {
		return reconcile.Result{RequeueAfter: left}, nil
	}
	node := &corev1.Node{}
	if err := c.config.Client.Get(ctx, client.ObjectKey{Name: claim.Status.NodeName}, node, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err) // A user deleted it: the end of its NodeClaim follows.
	}
	if err := c.report(ctx, claim, Issues(claim, node)); err != nil {
		return reconcile.Result{}, err
	}
	c.done(claim)
	return reconcile.Result{RequeueAfter: period}, nil
}

// due returns how long the next comparison is away. The condition shows when the first one was.
func (c *Controller) due(claim *karpv1.NodeClaim) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if last := c.scanned[claim.Name]; last.uid == claim.UID {
		return period - time.Since(last.at)
	}
	if first := conditions.Claim(claim, karpv1.ConditionTypeConsistentStateFound); first != nil && !first.IsUnknown() {
		return period - time.Since(first.LastTransitionTime.Time)
	}
	return 0
}

func (c *Controller) done(claim *karpv1.NodeClaim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scanned[claim.Name] = scan{claim.UID, time.Now()}
}

func (c *Controller) forget(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.scanned, name)
}

// report writes the condition, and an Event and a log line for each issue.
func (c *Controller) report(ctx context.Context, claim *karpv1.NodeClaim, issues []string) error {
	before := claim
	claim = before.DeepCopy()
	SetCondition(claim, issues)
	if !equality.Semantic.DeepEqual(before.Status, claim.Status) {
		if err := c.config.Client.Status().Patch(ctx, claim, nodeobj.ClaimStatus(before)); err != nil {
			return client.IgnoreNotFound(fmt.Errorf("writing status of NodeClaim %s: %w", claim.Name, err))
		}
	}
	Report(ctx, c.config.Events, claim, issues)
	return nil
}

// SetCondition sets the condition ConsistentStateFound.
func SetCondition(claim *karpv1.NodeClaim, issues []string) {
	if len(issues) == 0 {
		claim.StatusConditions().SetTrue(karpv1.ConditionTypeConsistentStateFound)
	} else {
		claim.StatusConditions().SetFalse(karpv1.ConditionTypeConsistentStateFound, reasonFalse, "Consistency Check Failed")
	}
}

// Report records an Event and a log line for each issue.
func Report(ctx context.Context, events announce.EventRecorder, claim *karpv1.NodeClaim, issues []string) {
	for _, issue := range issues {
		klog.FromContext(ctx).Info("failed consistency check", "nodeClaim", klog.KObj(claim), "node", claim.Status.NodeName, "issue", issue)
		events.Eventf(claim, corev1.EventTypeWarning, ReasonFailed, "%s", issue)
	}
}
