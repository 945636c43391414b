package join

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/announce"
	"github.com/slipway-k8s/slipway/launcher/bind"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership"
)

// workers is how many claims are looked at at once: most of the time each waits for an API server's answer.
const workers = 64

// handOver is how long a new claim is left to whoever recorded it: the server hands a whole batch to the launcher, so that equal
// claims share a call. One that is older was left behind by a process that died.
const handOver = 3 * time.Second

// foreign is when a claim that is not ours is looked at again: its Karpenter may be gone by then.
const foreign = 10 * time.Second

// Instances describes instances; cloud.Cloud has it.
type Instances interface {
	// Instances describes the instances that sel selects.
	Instances(ctx context.Context, sel cloud.Selector) ([]cloud.Instance, error)
}

// Launcher takes claims that have no instance; *launch.Launcher is one.
type Launcher interface {
	// Enqueue hands claims over and returns at once; those that are under way are left out.
	Enqueue(claims ...*karpv1.NodeClaim)
	// Forget drops what is known of a claim that was deleted.
	Forget(uid types.UID)
}

// Ender ends claims; *terminate.Terminator is one.
type Ender interface {
	// Begin starts the end of a NodeClaim, for one of Karpenter's reasons.
	Begin(ctx context.Context, claim *karpv1.NodeClaim, reason string) error
}

// Health knows of NodePools whether their nodes join; *health.Health is one.
type Health interface {
	// Joined notes that the node of a claim has registered.
	Joined(ctx context.Context, claim *karpv1.NodeClaim) error
	// DidNotJoin notes that the node of a claim did not join.
	DidNotJoin(ctx context.Context, claim *karpv1.NodeClaim, reason, message string) error
	// Rejected notes that a pod which was bound ahead of the scheduler could not run on the node of a claim.
	Rejected(ctx context.Context, claim *karpv1.NodeClaim, reason, message string) error
	// SwitchedOff is why nothing is bound ahead of the scheduler in the NodePool; empty where it is.
	SwitchedOff(pool *karpv1.NodePool) string
}

// Config is what a Controller is made of. Every field is required.
type Config struct {
	// Client reads from the cache, with the indexes of package index, and writes.
	Client client.Client
	// Reader reads from the API server what no cache holds.
	Reader client.Reader
	// Instances of the cloud.
	Instances Instances
	// Launcher of claims that have no instance yet.
	Launcher Launcher
	// Ender of claims that do not join.
	Ender Ender
	// Binder of promised pods.
	Binder *bind.Binder
	// Health of the NodePools.
	Health Health
	// Guard lets effects happen while leading only.
	Guard leadership.Guard
	// Events records slipway's own Events.
	Events announce.EventRecorder
	// Settings a user chose.
	Settings Settings
	// Ours says whether a claim is ours to launch and to bring in: Karpenter's are not while one is alive.
	Ours func(claim *karpv1.NodeClaim) bool
	// Failed is told of each claim that is ended because it did not join.
	Failed func(claim *karpv1.NodeClaim, reason, message string)
	// Registerer takes the metrics.
	Registerer prometheus.Registerer
}

// Controller reconciles NodeClaims from their recording until they are initialized.
type Controller struct {
	config  Config
	metrics *metrics
	memory  *memory
}

// New returns a Controller; SetupWithManager starts it with the manager.
func New(c Config) (*Controller, error) {
	given := []bool{
		c.Client != nil, c.Reader != nil, c.Instances != nil, c.Launcher != nil, c.Ender != nil, c.Binder != nil, c.Health != nil,
		c.Guard != nil, c.Events != nil, c.Ours != nil, c.Failed != nil, c.Registerer != nil,
	}
	if slices.Contains(given, false) {
		return nil, errors.New("join: every field of Config is required")
	}
	if c.Settings.JoinDeadline <= 0 || c.Settings.EmptyDeadline <= 0 || c.Settings.BindAt == "" {
		return nil, errors.New("join: Settings need BindAt and positive deadlines")
	}
	m, err := newMetrics(c.Registerer)
	if err != nil {
		return nil, err
	}
	return &Controller{config: c, metrics: m, memory: newMemory()}, nil
}

// SetupWithManager adds the reconciler to a manager.
func (c *Controller) SetupWithManager(mgr manager.Manager) error {
	return builder.ControllerManagedBy(mgr).Named("nodeclaim.join").
		For(&karpv1.NodeClaim{}).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(c.claimsOfNode)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](50*time.Millisecond, 10*time.Second),
		}).
		Complete(leadership.Reconciler(c.config.Guard, c.Reconcile))
}

// claimsOfNode finds the claim of a Node: by providerID, or by name where the kubelet has not told one.
func (c *Controller) claimsOfNode(ctx context.Context, obj client.Object) []reconcile.Request {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return nil
	}
	var out []reconcile.Request
	for _, fields := range []client.MatchingFields{{index.ClaimProviderID: node.Spec.ProviderID}, {index.ClaimNodeName: node.Name}} {
		var list karpv1.NodeClaimList
		if err := c.config.Client.List(ctx, &list, fields, client.UnsafeDisableDeepCopy); err != nil {
			klog.FromContext(ctx).Error(err, "NodeClaims of a Node could not be listed", "node", node.Name)
			continue
		}
		for i := range list.Items {
			out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Name: list.Items[i].Name}})
		}
		if len(out) > 0 {
			break
		}
	}
	return out
}

// Reconcile observes one claim, decides and acts. ctx is an effect's.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	claim := &karpv1.NodeClaim{}
	if err := c.config.Client.Get(ctx, req.NamespacedName, claim); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	switch {
	case !claim.DeletionTimestamp.IsZero():
		c.memory.forget(claim.UID)
		c.config.Launcher.Forget(claim.UID)
		return reconcile.Result{}, nil
	case claim.StatusConditions().Get(karpv1.ConditionTypeInitialized).IsTrue() && guarded(claim):
		c.memory.forget(claim.UID)
		return reconcile.Result{}, nil
	case !c.config.Ours(claim):
		return reconcile.Result{RequeueAfter: foreign}, nil
	case !guarded(claim):
		return reconcile.Result{}, guard(ctx, c.config.Client, claim) // The write comes back as an event.
	case claim.Status.ProviderID == "":
		// A creation in the future is another machine's clock: nothing waits for that.
		if age := time.Since(claim.CreationTimestamp.Time); age >= 0 && age < handOver {
			return reconcile.Result{RequeueAfter: handOver - age}, nil
		}
		c.config.Launcher.Enqueue(claim)
		return reconcile.Result{}, nil
	}
	observed, err := c.observe(ctx, claim)
	if err != nil {
		return reconcile.Result{}, err
	}
	c.saved(observed)
	again, err := c.act(ctx, observed, Decide(observed))
	return reconcile.Result{RequeueAfter: again}, err
}
