package nodepool

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/announce"
	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/internal/provider"
	"github.com/slipway-k8s/slipway/internal/window"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/drift"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership"
)

// conditionNotYet is a condition of earlier versions, which is removed: what it reported as missing is supported now.
const conditionNotYet = "slipway.dev/NotYet"

const workers = 4

// typesAgain is when a pool without a compatible instance type is compared with the instance types again, whose changes are not watched.
const typesAgain = time.Minute

// theirsAgain is when a NodePool whose status a Karpenter writes is looked at again: it may be slipway's by then.
const theirsAgain = 5 * time.Second

// Config holds the dependencies of a Controller. Every field is required unless its comment says otherwise.
type Config struct {
	// Client reads from the cache, with the indexes of package index, and writes.
	Client client.Client
	// Claims reads NodeClaims from the cache.
	Claims index.Claims
	// Offers lists the instance types of a class.
	Offers Offers
	// Events records Karpenter's Events.
	Events announce.EventRecorder
	// Guard allows effects only while this replica leads.
	Guard leadership.Guard
	// Leading reports whether this replica leads: only then it has the metrics of NodePools.
	Leading func() bool
	// Registerer registers the metrics.
	Registerer prometheus.Registerer
	// Theirs reports whether a running Karpenter writes the status of the NodePool; nil means that none ever does. Not required.
	Theirs func(pool *karpv1.NodePool) bool
	// Ours reports whether the launcher manages a claim: not if a running Karpenter does. Nil means that it manages all. Not required.
	Ours func(claim *karpv1.NodeClaim) bool
	// Overlaid returns the instance types of a NodePool whose prices NodeOverlays change; nil for none. Not required.
	Overlaid func(ctx context.Context, pool string) ([]catalog.InstanceType, bool)
	// StaticCapacity allows NodePools with a fixed number of nodes (spec.replicas). Not required.
	StaticCapacity bool
}

// Offers is the part of cloud.Cloud that lists what can be launched.
type Offers interface {
	// InstanceTypes returns the instance types of the class. The list is shared and not changed.
	InstanceTypes(ctx context.Context, class *awsv1.EC2NodeClass) ([]catalog.InstanceType, error)
}

// The reasons of the Events about a pause.
const (
	// ReasonDisruptionPaused means that no node of the NodePool is disrupted from now on.
	ReasonDisruptionPaused = "DisruptionPaused"
	// ReasonDisruptionResumed means that they are again.
	ReasonDisruptionResumed = "DisruptionResumed"
)

// Controller maintains the status of NodePools.
type Controller struct {
	config  Config
	metrics *metrics
}

// New returns a Controller; SetupWithManager starts it.
func New(c Config) (*Controller, error) {
	if c.Client == nil || c.Claims == nil || c.Offers == nil || c.Events == nil || c.Guard == nil || c.Leading == nil || c.Registerer == nil {
		return nil, errors.New("nodepool: Client, Claims, Offers, Events, Guard, Leading and Registerer are required")
	}
	if c.Theirs == nil {
		c.Theirs = func(*karpv1.NodePool) bool { return false }
	}
	if c.Ours == nil {
		c.Ours = func(*karpv1.NodeClaim) bool { return true }
	}
	m, err := newMetrics(c.Registerer, c.Leading)
	if err != nil {
		return nil, err
	}
	return &Controller{config: c, metrics: m}, nil
}

// SetupWithManager registers the controller.
func (c *Controller) SetupWithManager(mgr manager.Manager) error {
	return builder.ControllerManagedBy(mgr).Named("nodepool").
		For(&karpv1.NodePool{}).
		Watches(&awsv1.EC2NodeClass{}, handler.EnqueueRequestsFromMapFunc(c.poolsOfClass)).
		Watches(&karpv1.NodeClaim{}, later(poolOfClaim)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](100*time.Millisecond, 10*time.Second),
		}).
		Complete(reconcile.Func(c.Reconcile))
}

// claimsWithin is how long changes of NodeClaims are gathered: each look at a NodePool sums up all of its NodeClaims, and a node that starts changes
// its NodeClaim a dozen times.
const claimsWithin = 2 * time.Second

// later has a pool reconciled once for all changes of its NodeClaims within claimsWithin.
func later(poolOf handler.MapFunc) handler.EventHandler {
	add := func(ctx context.Context, o client.Object, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		for _, request := range poolOf(ctx, o) {
			q.AddAfter(request, claimsWithin)
		}
	}
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			add(ctx, e.Object, q)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			add(ctx, e.ObjectNew, q)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			add(ctx, e.Object, q)
		},
	}
}

func (c *Controller) poolsOfClass(ctx context.Context, o client.Object) []reconcile.Request {
	list := &karpv1.NodePoolList{}
	if err := c.config.Client.List(ctx, list, client.MatchingFields{index.PoolNodeClass: o.GetName()}); err != nil {
		return nil
	}
	out := make([]reconcile.Request, 0, len(list.Items))
	for _, p := range list.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKey{Name: p.Name}})
	}
	return out
}

func poolOfClaim(_ context.Context, o client.Object) []reconcile.Request {
	name := o.GetLabels()[karpv1.NodePoolLabelKey]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: name}}}
}

// Reconcile updates one pool's hash and status.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	return leadership.Reconciler(c.config.Guard, c.reconcile)(ctx, req)
}

func (c *Controller) reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	pool := &karpv1.NodePool{}
	if err := c.config.Client.Get(ctx, req.NamespacedName, pool); err != nil {
		if client.IgnoreNotFound(err) == nil {
			c.metrics.forget(req.Name)
		}
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if provider.OthersPool(pool) {
		c.metrics.forget(req.Name) // One of that name may have been slipway's.
		return reconcile.Result{}, nil
	}
	unstamped := c.stamp(ctx, pool) // A NodeClaim that cannot be written does not keep the status from being.
	again, err := c.update(ctx, pool)
	return again, errors.Join(unstamped, err)
}

// update writes the status, and Events about what changes in it.
func (c *Controller) update(ctx context.Context, pool *karpv1.NodePool) (reconcile.Result, error) {
	before := pool.DeepCopy()
	if err := c.observe(ctx, pool); err != nil {
		return reconcile.Result{}, err
	}
	again, why := reconcile.Result{}, incompatibility(pool)
	if why != "" {
		again.RequeueAfter = typesAgain
	}
	if windows, _ := window.Read(pool.Annotations); len(windows) > 0 { // A condition says what is wrong with others.
		again.RequeueAfter = sooner(again.RequeueAfter, time.Until(windows.Next(time.Now())))
	}
	if c.config.Theirs(pool) {
		return reconcile.Result{RequeueAfter: theirsAgain}, nil
	}
	if equality.Semantic.DeepEqual(before.Status, pool.Status) {
		return again, nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.config.Client.Status().Patch(ctx, pool, patch); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(fmt.Errorf("writing status of NodePool %s: %w", pool.Name, err))
	}
	if why != "" && why != incompatibility(before) {
		c.config.Events.Eventf(pool, corev1.EventTypeWarning, ReasonNoCompatibleInstanceTypes, "No node can be launched: %s", why)
	}
	c.reportPause(ctx, before, pool)
	c.reportLimit(ctx, before, pool)
	return again, nil
}

// reportPause writes an Event when the disruption of the pool's nodes is paused or resumed.
func (c *Controller) reportPause(ctx context.Context, before, now *karpv1.NodePool) {
	was, is := before.StatusConditions().IsTrue(ConditionDisruptionPaused), now.StatusConditions().IsTrue(ConditionDisruptionPaused)
	switch {
	case is && !was:
		c.config.Events.Eventf(now, corev1.EventTypeNormal, ReasonDisruptionPaused, "The disruption of its nodes is paused by the annotation %s", catalog.PausedAnnotation)
	case was && !is:
		c.config.Events.Eventf(now, corev1.EventTypeNormal, ReasonDisruptionResumed, "The disruption of its nodes is no longer paused")
	default:
		return
	}
	klog.FromContext(ctx).Info("The disruption of a NodePool's nodes is paused or resumed", "nodePool", now.Name, "paused", is)
}

// reportLimit writes an Event when a limit begins to keep the pool from another node.
func (c *Controller) reportLimit(ctx context.Context, before, now *karpv1.NodePool) {
	reached := now.StatusConditions().Get(ConditionLimitReached)
	if !reached.IsTrue() || before.StatusConditions().IsTrue(ConditionLimitReached) {
		return
	}
	c.config.Events.Eventf(now, corev1.EventTypeWarning, ReasonLimitReached, "No node more can be launched: %s", reached.Message)
	klog.FromContext(ctx).Info("A limit of a NodePool is reached", "nodePool", now.Name, "limit", reached.Message)
}

// incompatibility returns what the pool's condition says about its instance types; empty if some are compatible.
func incompatibility(pool *karpv1.NodePool) string {
	if c := pool.StatusConditions().Get(karpv1.ConditionTypeValidationSucceeded); c.IsFalse() && c.Reason == ReasonNoCompatibleInstanceTypes {
		return c.Message
	}
	return ""
}

// stamp writes the hash. NodeClaims whose hash has another version come first.
func (c *Controller) stamp(ctx context.Context, pool *karpv1.NodePool) error {
	if pool.DeletionTimestamp != nil || pool.Annotations[catalog.UnreadableAnnotation] != "" {
		return nil // The hash of an unreadable pool differs: its nodes would look drifted.
	}
	all, err := c.config.Claims.All(ctx)
	if err != nil {
		return fmt.Errorf("stamp NodePool %s: %w", pool.Name, err)
	}
	hash := drift.PoolHash(pool)
	if err := hash.Renew(ctx, c.config.Client, slices.DeleteFunc(all, func(claim *karpv1.NodeClaim) bool {
		return claim.Labels[karpv1.NodePoolLabelKey] != pool.Name || !c.config.Ours(claim)
	})); err != nil {
		return err
	}
	before := pool.DeepCopy()
	hash.Annotate(&pool.ObjectMeta)
	if equality.Semantic.DeepEqual(before, pool) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.config.Client.Patch(ctx, pool, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("stamp NodePool %s: %w", pool.Name, err)
	}
	return nil
}

// sooner returns the shorter one of two times, where one that is not positive stands for none.
func sooner(a, b time.Duration) time.Duration {
	switch {
	case b <= 0:
		return a
	case a <= 0:
		return b
	}
	return min(a, b)
}

// observe computes the status from the pool itself, its class and its claims.
func (c *Controller) observe(ctx context.Context, pool *karpv1.NodePool) error {
	all, err := c.config.Claims.All(ctx)
	if err != nil {
		return fmt.Errorf("observing NodePool %s: %w", pool.Name, err)
	}
	claims := slices.DeleteFunc(all, func(claim *karpv1.NodeClaim) bool { return claim.Labels[karpv1.NodePoolLabelKey] != pool.Name })
	var class *awsv1.EC2NodeClass
	if ref := pool.Spec.Template.Spec.NodeClassRef; ref != nil && ref.Name != "" {
		class = &awsv1.EC2NodeClass{}
		err := c.config.Client.Get(ctx, client.ObjectKey{Name: ref.Name}, class)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("getting EC2NodeClass %s of NodePool %s: %w", ref.Name, pool.Name, err)
		}
		if err != nil {
			class = nil
		}
	}
	facts := Facts{Class: class, Claims: claims, Fixed: c.config.StaticCapacity, Now: time.Now()}
	if class != nil && class.DeletionTimestamp == nil && class.StatusConditions().Root().IsTrue() {
		var err error
		facts.Types, err = c.config.Offers.InstanceTypes(ctx, class)
		facts.TypesKnown = err == nil // An error is the EC2NodeClass's, and is reported where nodes are planned.
	}
	usage := Usage(claims, c.usd(ctx, pool, facts.Types))
	nodes := int64(len(claims))
	pool.Status.Resources, pool.Status.Nodes = usage, &nodes
	limits := window.Limits(pool.Annotations, corev1.ResourceList(pool.Spec.Limits), facts.Now)
	facts.Limits = limits
	SetConditions(ctx, pool, facts)
	c.metrics.set(pool.Name, usage, limits)
	c.metrics.setPaused(pool.Name, disruption.Paused(pool))
	return nil
}
