package standby

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/announce"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership"
	"github.com/slipway-k8s/slipway/launcher/prefetch"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// workers is the number of claims that are reconciled concurrently: most of the time each waits for EC2.
const workers = 32

// Cloud is the part of cloud.Cloud that is needed.
type Cloud interface {
	cloud.Power

	// Instances describes the instances that sel selects.
	Instances(ctx context.Context, sel cloud.Selector) ([]cloud.Instance, error)
}

// Ender terminates claims; *terminate.Terminator is one.
type Ender interface {
	// Begin starts the termination of a NodeClaim.
	Begin(ctx context.Context, claim *karpv1.NodeClaim, reason string) error
}

// Config holds the dependencies of a Controller. Every field is required.
type Config struct {
	// Client reads from the cache, with the indexes of package index, and writes.
	Client client.Client
	// Pods of the cluster.
	Pods index.Pods
	// Cloud has the instances.
	Cloud Cloud
	// Ender of claims.
	Ender Ender
	// Guard allows effects only while this replica leads.
	Guard leadership.Guard
	// Events records Events.
	Events announce.EventRecorder
	// Ours reports whether the launcher manages a claim.
	Ours func(claim *karpv1.NodeClaim) bool
	// Needed returns which buffer has room on a claim's node, or that this is not known; empty for none.
	Needed func(claim *karpv1.NodeClaim) string
	// Disk returns a pod of the standby buffer with that UID, whose images are pulled before a node is stopped, and how long a node that is ready waits for
	// them at most; nil where there is no such buffer.
	Disk func(buffer string) (*corev1.Pod, time.Duration)
	// Hibernation reports whether the class of a claim's node has its instances hibernated, and why EC2 cannot; empty if it can.
	Hibernation func(ctx context.Context, claim *karpv1.NodeClaim) (wanted bool, cannot string, err error)
	// ExpiresSoon reports whether a claim is in the window before its expiry in which nodes are replaced.
	ExpiresSoon func(ctx context.Context, claim *karpv1.NodeClaim) (bool, error)
	// Failed is called for each claim whose instance EC2 does not start for want of capacity.
	Failed func(claim *karpv1.NodeClaim, reason, message string)
	// Registerer registers the metrics.
	Registerer prometheus.Registerer
}

// Controller reconciles NodeClaims that wait for standby buffers.
type Controller struct {
	config  Config
	metrics *metrics
	// stops, hibernations and starts are the calls of EC2, many instances in one.
	stops, hibernations together[string]
	starts              together[cloud.Instance]

	mu sync.Mutex
	// claims are what is remembered of each claim.
	claims map[types.UID]remembered
}

// remembered is what is known of a claim between two rounds. A restart loses nothing of it that counts.
type remembered struct {
	// unneeded is since when its buffer has no room planned on it, again when a stop is tried again that EC2 refused, checked when EC2 was asked about it last.
	unneeded, again, checked time.Time
	// promises are those that its NodeClaim has, as they are written, and promised is when they were first seen.
	promises string
	promised time.Time
	// awake is why EC2 refused to hibernate it: it is stopped instead.
	awake string
	// ended means that its termination has begun: the cache may not show it yet.
	ended bool
}

// New returns a Controller; SetupWithManager starts it with the manager.
func New(c Config) (*Controller, error) {
	given := []bool{
		c.Client != nil, c.Pods != nil, c.Cloud != nil, c.Ender != nil, c.Guard != nil, c.Events != nil, c.Ours != nil, c.Needed != nil, c.Disk != nil, c.Failed != nil,
		c.Hibernation != nil, c.ExpiresSoon != nil, c.Registerer != nil,
	}
	if slices.Contains(given, false) {
		return nil, errors.New("standby: every field of Config is required")
	}
	m, err := newMetrics(c.Registerer)
	return &Controller{
		config: c, metrics: m, claims: map[types.UID]remembered{},
		stops:        together[string]{call: stopCall(c.Cloud, false), id: func(id string) string { return id }},
		hibernations: together[string]{call: stopCall(c.Cloud, true), id: func(id string) string { return id }},
		starts:       together[cloud.Instance]{call: c.Cloud.StartInstances, id: func(i cloud.Instance) string { return i.ID }},
	}, err
}

// stopCall returns the call that stops instances, or hibernates them.
func stopCall(of cloud.Power, hibernate bool) func(context.Context, []string) map[string]error {
	return func(ctx context.Context, ids []string) map[string]error { return of.StopInstances(ctx, ids, hibernate) }
}

// SetupWithManager adds the reconciler to a manager.
func (c *Controller) SetupWithManager(mgr manager.Manager) error {
	return builder.ControllerManagedBy(mgr).Named("nodeclaim.standby").
		For(&karpv1.NodeClaim{}).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(c.claimsOfNode)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(leadership.Reconciler(c.config.Guard, c.Reconcile))
}

// claimsOfNode returns the claim of a Node that is kept for a standby buffer, which is cordoned.
func (c *Controller) claimsOfNode(ctx context.Context, obj client.Object) []reconcile.Request {
	node, ok := obj.(*corev1.Node)
	if !ok || node.Spec.ProviderID == "" || !node.Spec.Unschedulable {
		return nil
	}
	list := &karpv1.NodeClaimList{}
	if err := c.config.Client.List(ctx, list, client.MatchingFields{index.ClaimProviderID: node.Spec.ProviderID}, client.UnsafeDisableDeepCopy); err != nil {
		klog.FromContext(ctx).Error(err, "NodeClaims of a Node could not be listed", "node", node.Name)
		return nil
	}
	var out []reconcile.Request
	for i := range list.Items {
		if record.StandbyOf(&list.Items[i]).Waits() {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
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
	case !claim.DeletionTimestamp.IsZero() || !record.StandbyOf(claim).Waits():
		c.forget(claim.UID)
		return reconcile.Result{}, nil
	case claim.Status.ProviderID == "" || !c.config.Ours(claim):
		return reconcile.Result{RequeueAfter: pollNeed}, nil
	}
	if c.remember(claim.UID, func(*remembered) {}).ended {
		return reconcile.Result{RequeueAfter: pollNeed}, nil
	}
	o, err := c.observe(ctx, claim)
	if err != nil {
		return reconcile.Result{}, err
	}
	again, err := c.act(ctx, o, Decide(o))
	return reconcile.Result{RequeueAfter: again}, err
}

// observe gathers Decide's input for one claim.
func (c *Controller) observe(ctx context.Context, claim *karpv1.NodeClaim) (Observed, error) {
	o := Observed{Now: time.Now(), Claim: claim}
	refs, err := record.Pods(claim)
	if err != nil {
		// The annotation is damaged. The instance waits as one without promised pods.
		klog.FromContext(ctx).Error(err, "Promises of a NodeClaim cannot be read", "nodeClaim", klog.KObj(claim))
	}
	promises, err := index.Promised(ctx, c.config.Pods, refs)
	if err != nil {
		return o, err
	}
	o.Promised = slices.ContainsFunc(promises, func(p index.Promise) bool { return p.Pod != nil && p.Pod.DeletionTimestamp.IsZero() })
	r := c.remember(claim.UID, func(r *remembered) {
		switch {
		case c.config.Needed(claim) != "":
			r.unneeded = time.Time{}
		case r.unneeded.IsZero():
			r.unneeded = o.Now
		}
		if now := claim.Annotations[catalog.PodsAnnotation]; r.promises != now {
			r.promises, r.promised = now, o.Now
		}
	})
	o.Unshown = o.Now.Sub(r.promised) < shownWithin && slices.ContainsFunc(promises, func(p index.Promise) bool { return p.Pod == nil })
	o.UnneededSince, o.StopAfter = r.unneeded, r.again
	state := record.StandbyOf(claim).State
	if state == record.StandbyAsleep || !o.StopAfter.IsZero() {
		if o.ExpiresSoon, err = c.config.ExpiresSoon(ctx, claim); err != nil {
			return o, err
		}
	}
	if state == record.StandbyPreparing {
		return o, c.observeNode(ctx, &o)
	}
	if asks(o, r.checked) {
		return o, c.observeInstance(ctx, &o)
	}
	return o, nil
}

// observeInstance asks EC2.
func (c *Controller) observeInstance(ctx context.Context, o *Observed) error {
	id := index.InstanceID(o.Claim.Status.ProviderID)
	found, err := c.config.Cloud.Instances(ctx, cloud.Selector{IDs: []string{id}})
	if err != nil {
		return fmt.Errorf("asking for the state of instance %s: %w", id, err)
	}
	c.remember(o.Claim.UID, func(r *remembered) { r.checked = o.Now })
	if len(found) == 1 {
		o.Instance, o.Hibernated = found[0].State, found[0].Hibernated
	}
	return nil
}

// observeNode reads what is on the node of a claim that is prepared.
func (c *Controller) observeNode(ctx context.Context, o *Observed) error {
	node, err := index.NodeOf(ctx, c.config.Client, o.Claim)
	if err != nil || node == nil {
		return err
	}
	if ready := conditions.Ready(node); ready != nil && ready.Status == corev1.ConditionTrue {
		o.ReadySince = ready.LastTransitionTime.Time
	}
	pods, err := c.config.Pods.On(ctx, node.Name)
	if err != nil {
		return err
	}
	o.Occupant = occupant(pods)
	for _, pod := range pods {
		if pod.Status.Phase == corev1.PodPending {
			o.Starting++
		}
	}
	wanted, within := c.config.Disk(record.StandbyOf(o.Claim).Buffer)
	if o.Within = within; wanted == nil {
		return nil
	}
	o.Known = true
	have := map[string]bool{}
	for _, image := range node.Status.Images {
		for _, name := range image.Names {
			have[name] = true
		}
	}
	for _, image := range prefetch.Make([]*corev1.Pod{wanted}, func(string) int64 { return 0 }).Images {
		if !have[image] {
			o.Missing = append(o.Missing, image)
		}
	}
	return nil
}

// remember changes what is remembered of a claim, and returns it.
func (c *Controller) remember(claim types.UID, change func(*remembered)) remembered {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.claims[claim]
	change(&r)
	c.claims[claim] = r
	return r
}

func (c *Controller) forget(claim types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.claims, claim)
}
