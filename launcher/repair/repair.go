package repair

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/announce"
	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership"
)

// Reason is Karpenter's label value for all disruptions of this package.
const Reason = "unhealthy"

const (
	workers = 4
	// again is when a node is checked again that is not repaired because too many are unhealthy.
	again = 5 * time.Minute
	// foreignPeriod is when a node is checked again that a running Karpenter manages.
	foreignPeriod = time.Minute
)

// Ender terminates nodes; *terminate.Terminator is one.
type Ender interface {
	// BeginNow starts the termination of a NodeClaim without waiting for pods.
	BeginNow(ctx context.Context, claim *karpv1.NodeClaim, reason string) error
}

// Config holds the dependencies of a Repairer. Every field is required except Policies and Ours.
type Config struct {
	// Client reads from the cache, with the indexes of package index.
	Client client.Client
	// Guard allows effects only while this replica leads.
	Guard leadership.Guard
	// Ender terminates nodes.
	Ender Ender
	// Events records Karpenter's Events.
	Events announce.EventRecorder
	// Registerer registers the metrics.
	Registerer prometheus.Registerer
	// Enabled is the feature gate: without it nothing is repaired.
	Enabled bool
	// Policies define which conditions are tolerated for how long. Default: Policies().
	Policies []Policy
	// Ours reports whether the launcher may terminate a claim: not if a running Karpenter manages it. Nil means that it may terminate all.
	Ours func(claim *karpv1.NodeClaim) bool
}

// Repairer replaces unhealthy nodes.
type Repairer struct {
	config  Config
	metrics *metrics
}

// New returns a Repairer; SetupWithManager starts it.
func New(c Config) (*Repairer, error) {
	if c.Client == nil || c.Guard == nil || c.Ender == nil || c.Events == nil || c.Registerer == nil {
		return nil, errors.New("repair: Client, Guard, Ender, Events and Registerer are required")
	}
	if c.Policies == nil {
		c.Policies = Policies()
	}
	if c.Ours == nil {
		c.Ours = func(*karpv1.NodeClaim) bool { return true }
	}
	m, err := newMetrics(c.Registerer)
	if err != nil {
		return nil, err
	}
	return &Repairer{config: c, metrics: m}, nil
}

// SetupWithManager registers the controller if the feature gate is on.
func (r *Repairer) SetupWithManager(mgr manager.Manager) error {
	if !r.config.Enabled {
		return nil
	}
	return builder.ControllerManagedBy(mgr).Named("node.health").
		For(&corev1.Node{}, builder.WithPredicates(predicate.Funcs{UpdateFunc: changed})).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(reconcile.Func(r.Reconcile))
}

// changed reports whether a condition changed its status or is new: kubelets write their Nodes all the time.
func changed(e event.UpdateEvent) bool {
	before, ok := e.ObjectOld.(*corev1.Node)
	after, ok2 := e.ObjectNew.(*corev1.Node)
	if !ok || !ok2 || len(before.Status.Conditions) != len(after.Status.Conditions) {
		return true
	}
	for i, c := range before.Status.Conditions {
		d := after.Status.Conditions[i]
		if c.Type != d.Type || c.Status != d.Status || !c.LastTransitionTime.Equal(&d.LastTransitionTime) {
			return true
		}
	}
	return false
}

// Reconcile checks one Node.
func (r *Repairer) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	return leadership.Reconciler(r.config.Guard, r.reconcile)(ctx, req)
}

func (r *Repairer) reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	node := &corev1.Node{}
	if err := r.config.Client.Get(ctx, req.NamespacedName, node); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	sickness, found := Find(node, r.config.Policies)
	if !found {
		return reconcile.Result{}, nil
	}
	if wait := time.Until(sickness.Due); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	claim, err := r.claimOf(ctx, node)
	switch {
	case err != nil || claim == nil || ends(claim):
		return reconcile.Result{}, err
	case !r.config.Ours(claim):
		return reconcile.Result{RequeueAfter: foreignPeriod}, nil
	}
	blocked, err := r.blocked(ctx, claim)
	if err != nil {
		return reconcile.Result{}, err
	}
	if blocked != "" {
		r.config.Events.Eventf(node, corev1.EventTypeWarning, "NodeRepairBlocked", "%s", blocked)
		r.config.Events.Eventf(claim, corev1.EventTypeWarning, "NodeRepairBlocked", "%s", blocked)
		return reconcile.Result{RequeueAfter: again}, nil
	}
	return reconcile.Result{}, r.end(ctx, node, claim, sickness)
}

// ends reports whether the termination of a claim waits for no pod any more: a drain that waits is ended as a node is that serves.
func ends(claim *karpv1.NodeClaim) bool {
	return disruption.GraceIsOver(claim, time.Now()) || claim.StatusConditions().IsTrue(karpv1.ConditionTypeInstanceTerminating)
}

// claimOf returns the joined NodeClaim of a Node; nil if there is none. A node that does not join is handled by package join.
func (r *Repairer) claimOf(ctx context.Context, node *corev1.Node) (*karpv1.NodeClaim, error) {
	list := &karpv1.NodeClaimList{}
	if err := r.config.Client.List(ctx, list, client.MatchingFields{index.ClaimNodeName: node.Name}); err != nil {
		return nil, fmt.Errorf("listing NodeClaims of Node %s: %w", node.Name, err)
	}
	for i := range list.Items {
		claim := &list.Items[i]
		own := node.Spec.ProviderID == "" || claim.Status.ProviderID == node.Spec.ProviderID
		if own && claim.StatusConditions().IsTrue(karpv1.ConditionTypeRegistered) {
			return claim, nil
		}
	}
	return nil, nil
}

// blocked returns why an unhealthy node is not repaired; "" if it may be.
func (r *Repairer) blocked(ctx context.Context, claim *karpv1.NodeClaim) (string, error) {
	var options []client.ListOption
	of := "cluster"
	if pool := claim.Labels[karpv1.NodePoolLabelKey]; pool != "" {
		options, of = append(options, client.MatchingLabels{karpv1.NodePoolLabelKey: pool}), "nodepool"
	}
	nodes := &corev1.NodeList{}
	if err := r.config.Client.List(ctx, nodes, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return "", fmt.Errorf("listing Nodes: %w", err)
	}
	return TooMany(nodes.Items, r.config.Policies, of), nil
}

func (r *Repairer) end(ctx context.Context, node *corev1.Node, claim *karpv1.NodeClaim, s Sickness) error {
	c := s.Condition
	klog.FromContext(ctx).Info("deleting unhealthy node", "nodeClaim", klog.KObj(claim), "node", klog.KObj(node),
		"condition", c.Type, "status", c.Status, "since", c.LastTransitionTime.Time)
	for _, object := range []client.Object{node, claim} {
		r.config.Events.Eventf(object, corev1.EventTypeWarning, "DisruptionTerminating", "Disrupting Node: Unhealthy: condition %s is %s since %s: %s",
			c.Type, c.Status, c.LastTransitionTime.UTC().Format(time.RFC3339), c.Message)
	}
	drains := claim.DeletionTimestamp != nil
	if err := r.config.Ender.BeginNow(ctx, claim, Reason); err != nil {
		return fmt.Errorf("repair Node %s: %w", node.Name, err)
	}
	if drains {
		return nil // As in Karpenter, what another reason disrupted already is not counted.
	}
	r.metrics.unhealthy.WithLabelValues(snake(string(c.Type)), claim.Labels[karpv1.NodePoolLabelKey],
		claim.Labels[karpv1.CapacityTypeLabelKey], claim.Status.ImageID).Inc()
	return nil
}

// snake returns a condition's type in the form of Karpenter's metric: network_unavailable for NetworkUnavailable.
func snake(name string) string {
	var out strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			out.WriteByte('_')
		}
		out.WriteRune(unicode.ToLower(r))
	}
	return out.String()
}
