package join

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
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

	"github.com/slipway-k8s/slipway/internal/announce"
	"github.com/slipway-k8s/slipway/launcher/bind"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// workers is the number of claims that are reconciled concurrently: most of the time each waits for an API server's answer.
const workers = 64

// handOver is how long a new claim is left to the process that recorded it: the server hands a whole batch to the launcher, so that equal
// claims share a call. An older claim was left behind by a process that crashed.
const handOver = 3 * time.Second

// foreign is when a claim of another Karpenter is checked again: that Karpenter may have stopped by then.
const foreign = 10 * time.Second

// Instances describes instances; cloud.Cloud has it.
type Instances interface {
	// Instances describes the instances that sel selects.
	Instances(ctx context.Context, sel cloud.Selector) ([]cloud.Instance, error)
}

// Launcher launches claims that have no instance; *launch.Launcher is one.
type Launcher interface {
	// Enqueue queues claims and returns at once; those being launched are ignored.
	Enqueue(claims ...*karpv1.NodeClaim)
	// Forget drops the state of a claim that was deleted.
	Forget(uid types.UID)
}

// Ender terminates claims; *terminate.Terminator is one.
type Ender interface {
	// Begin starts the termination of a NodeClaim, for one of Karpenter's reasons.
	Begin(ctx context.Context, claim *karpv1.NodeClaim, reason string) error
}

// Health tracks whether the nodes of NodePools join; *health.Health is one.
type Health interface {
	// Joined records that the node of a claim has registered.
	Joined(ctx context.Context, claim *karpv1.NodeClaim) error
	// DidNotJoin records that the node of a claim did not join.
	DidNotJoin(ctx context.Context, claim *karpv1.NodeClaim, reason, message string) error
	// Rejected records that a pod which the launcher bound could not run on the node of a claim.
	Rejected(ctx context.Context, claim *karpv1.NodeClaim, reason, message string) error
	// SwitchedOff returns why the launcher binds no pods in the NodePool; "" if it does.
	SwitchedOff(pool *karpv1.NodePool) string
}

// Config holds the dependencies of a Controller. Every field is required.
type Config struct {
	// Client reads from the cache, with the indexes of package index, and writes.
	Client client.Client
	// Pods of the cluster.
	Pods index.Pods
	// Nodes of the cluster.
	Nodes index.Nodes
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
	// Images puts on a Node that is to be created which images its promised pods need; created is called when the Node is.
	Images func(ctx context.Context, claim *karpv1.NodeClaim, node *corev1.Node) (created func())
	// Health of the NodePools.
	Health Health
	// Guard allows effects only while this replica leads.
	Guard leadership.Guard
	// Events records slipway's own Events.
	Events announce.EventRecorder
	// KarpenterEvents records the Events that Karpenter has too.
	KarpenterEvents announce.EventRecorder
	// Settings a user chose.
	Settings Settings
	// Ours reports whether the launcher manages a claim: not if a running Karpenter does.
	Ours func(claim *karpv1.NodeClaim) bool
	// Failed is called for each claim that is ended because it did not join.
	Failed func(claim *karpv1.NodeClaim, reason, message string)
	// Registerer registers the metrics.
	Registerer prometheus.Registerer
}

// Controller reconciles NodeClaims from their recording until they are initialized.
type Controller struct {
	config  Config
	metrics *metrics
	memory  *memory
	leases  leases
	costs   *deletionCosts
	around  surroundings
	leading *leading
}

// New returns a Controller; SetupWithManager starts it with the manager.
func New(c Config) (*Controller, error) {
	given := []bool{
		c.Client != nil, c.Pods != nil, c.Nodes != nil, c.Reader != nil, c.Instances != nil, c.Launcher != nil, c.Ender != nil, c.Binder != nil, c.Images != nil, c.Health != nil,
		c.Guard != nil, c.Events != nil, c.KarpenterEvents != nil, c.Ours != nil, c.Failed != nil, c.Registerer != nil,
	}
	if slices.Contains(given, false) {
		return nil, errors.New("join: every field of Config is required")
	}
	if c.Settings.Patience.Promised <= 0 || c.Settings.Patience.Empty <= 0 || c.Settings.BindAt == "" {
		return nil, errors.New("join: Settings need BindAt and positive deadlines")
	}
	m, err := newMetrics(c.Registerer)
	if err != nil {
		return nil, err
	}
	memory := newMemory()
	return &Controller{
		config: c, metrics: m, memory: memory, leases: leases{client: c.Client, reader: c.Reader, memory: memory},
		leading: &leading{guard: c.Guard},
		costs:   &deletionCosts{cache: c.Client, recent: map[replicaSet]*chosen{}},
		around:  surroundings{client: c.Client, pods: c.Pods, nodes: c.Nodes, memory: memory, binder: c.Binder, turns: make(chan struct{}, looksAtOnce)},
	}, nil
}

// SetupWithManager adds the reconciler to a manager.
func (c *Controller) SetupWithManager(mgr manager.Manager) error {
	joins := builder.ControllerManagedBy(mgr).Named("nodeclaim.join").
		For(&karpv1.NodeClaim{}).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(c.claimsOfNode))
	if !c.config.Settings.IgnoreDRARequests {
		joins = joins.Watches(&resourcev1.ResourceSlice{}, handler.EnqueueRequestsFromMapFunc(onSlices(c.config.Client, c.claimsOfNode)))
	}
	return joins.
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](50*time.Millisecond, 10*time.Second),
		}).
		Complete(leadership.Reconciler(c.config.Guard, c.Reconcile))
}

// claimsOfNode returns the claim of a Node: by providerID, or by name if the kubelet has not set one.
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
		if err := joined(ctx, c, claim); err != nil {
			return reconcile.Result{}, err
		}
		c.memory.forget(claim.UID)
		return reconcile.Result{}, nil
	case !c.config.Ours(claim):
		return reconcile.Result{RequeueAfter: foreign}, nil
	case !guarded(claim):
		return reconcile.Result{}, guard(ctx, c.config.Client, claim) // The write comes back as an event.
	case record.StandbyOf(claim).Off():
		c.memory.forget(claim.UID) // It boots from scratch when it is woken.
		return reconcile.Result{}, nil
	case claim.Status.ProviderID == "":
		// A creation time in the future comes from another machine's clock: the launcher does not wait for it.
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
