package prefetch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership"
	nodeobj "github.com/slipway-k8s/slipway/launcher/node"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// workers is the number of claims that are reconciled concurrently.
const workers = 16

// Config holds the dependencies of a Controller. Every field is required.
type Config struct {
	// Client reads from the cache, with the indexes of package index, and writes.
	Client client.Client
	// Pods of the cluster.
	Pods index.Pods
	// Guard allows effects only while this replica leads.
	Guard leadership.Guard
	// Ours reports whether the launcher manages a claim.
	Ours func(claim *karpv1.NodeClaim) bool
	// Disk returns a pod of the standby buffer with that UID, whose images the node has before it is stopped; nil where there is no such buffer.
	Disk func(buffer string) (*corev1.Pod, time.Duration)
	// Registerer registers the metrics.
	Registerer prometheus.Registerer
}

// Controller maintains the list of images on booting Nodes.
type Controller struct {
	config  Config
	metrics *metrics
	sizes   *sizes
}

// New returns a Controller; SetupWithManager starts it with the manager.
func New(c Config) (*Controller, error) {
	if c.Client == nil || c.Pods == nil || c.Guard == nil || c.Ours == nil || c.Disk == nil || c.Registerer == nil {
		return nil, errors.New("prefetch: every field of Config is required")
	}
	m, err := newMetrics(c.Registerer)
	if err != nil {
		return nil, err
	}
	return &Controller{config: c, metrics: m, sizes: newSizes()}, nil
}

// SetupWithManager adds the reconciler to a manager.
func (c *Controller) SetupWithManager(mgr manager.Manager) error {
	return builder.ControllerManagedBy(mgr).Named("nodeclaim.prefetch").
		For(&karpv1.NodeClaim{}).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(c.Seen)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(leadership.Reconciler(c.config.Guard, c.Reconcile))
}

// Seen records the image sizes that a Node reports, and returns the claim of a booting Node.
func (c *Controller) Seen(ctx context.Context, obj client.Object) []reconcile.Request {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return nil
	}
	c.sizes.learn(node.Status.Images)
	if node.Spec.ProviderID == "" || conditions.NodeReady(node) {
		return nil
	}
	var list karpv1.NodeClaimList
	err := c.config.Client.List(ctx, &list, client.MatchingFields{index.ClaimProviderID: node.Spec.ProviderID}, client.UnsafeDisableDeepCopy)
	if err != nil {
		klog.FromContext(ctx).Error(err, "NodeClaims of a Node could not be listed", "node", node.Name)
		return nil
	}
	out := make([]reconcile.Request, 0, len(list.Items))
	for i := range list.Items {
		out = append(out, reconcile.Request{NamespacedName: types.NamespacedName{Name: list.Items[i].Name}})
	}
	return out
}

// Reconcile writes the list of one claim to its Node while the Node boots. ctx is an effect's.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	claim := &karpv1.NodeClaim{}
	if err := c.config.Client.Get(ctx, req.NamespacedName, claim, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	settled := conditions.ClaimIs(claim, karpv1.ConditionTypeInitialized) || claim.Status.ProviderID == ""
	if !claim.DeletionTimestamp.IsZero() || settled || !c.config.Ours(claim) {
		return reconcile.Result{}, nil
	}
	node, err := c.booting(ctx, claim)
	if err != nil || node == nil {
		return reconcile.Result{}, err
	}
	list, err := c.list(ctx, claim, node.Name)
	if err != nil || list == nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{}, c.write(ctx, node, *list)
}

// Prepare puts the list of a claim on its Node before that is created, which spares a write. The caller calls created when the Node is.
func (c *Controller) Prepare(ctx context.Context, claim *karpv1.NodeClaim, node *corev1.Node) (created func()) {
	list, err := c.list(ctx, claim, node.Name)
	if err != nil || list == nil {
		return func() {} // Reconcile comes back to it.
	}
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, catalog.PrefetchAnnotation, list.String())
	return func() { c.count("", false, *list) }
}

// list returns the list of a claim's Node; nil if it gets none: it has no promised pods, and waits for no standby buffer, or its class disables prefetching.
func (c *Controller) list(ctx context.Context, claim *karpv1.NodeClaim, nodeName string) (*List, error) {
	standby := record.StandbyOf(claim)
	if claim.Annotations[catalog.PodsAnnotation] == "" && !standby.Waits() || claim.Spec.NodeClassRef == nil {
		return nil, nil
	}
	class := &awsv1.EC2NodeClass{}
	if err := c.config.Client.Get(ctx, types.NamespacedName{Name: claim.Spec.NodeClassRef.Name}, class, client.UnsafeDisableDeepCopy); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if !On(class) {
		return nil, nil
	}
	pods, err := c.promised(ctx, claim, nodeName)
	if err != nil {
		return nil, err
	}
	if standby.Waits() {
		if pod, _ := c.config.Disk(standby.Buffer); pod != nil {
			pods = append(pods, pod)
		}
	}
	return new(Make(pods, c.sizes.of)), nil
}

// booting returns the claim's Node; nil if there is none yet, or if it is Ready.
func (c *Controller) booting(ctx context.Context, claim *karpv1.NodeClaim) (*corev1.Node, error) {
	var nodes corev1.NodeList
	if err := c.config.Client.List(ctx, &nodes, client.MatchingFields{index.NodeProviderID: claim.Status.ProviderID}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	if len(nodes.Items) == 0 || slices.ContainsFunc(nodes.Items, func(n corev1.Node) bool { return conditions.NodeReady(&n) }) {
		return nil, nil
	}
	return &nodes.Items[0], nil
}

// promised returns the pods of the claim that have not started on the node yet.
func (c *Controller) promised(ctx context.Context, claim *karpv1.NodeClaim, nodeName string) ([]*corev1.Pod, error) {
	refs, err := record.Pods(claim)
	if err != nil {
		// The annotation is damaged: the kubelet pulls the images, as it would without prefetching.
		klog.FromContext(ctx).V(2).Info("Promises of a NodeClaim cannot be read", "nodeClaim", klog.KObj(claim), "err", err)
	}
	promises, err := index.Promised(ctx, c.config.Pods, refs)
	if err != nil {
		return nil, err
	}
	out := make([]*corev1.Pod, 0, len(promises))
	for _, p := range promises {
		if p.Pod != nil && (p.Pod.Spec.NodeName == "" || p.Pod.Spec.NodeName == nodeName) {
			out = append(out, p.Pod)
		}
	}
	return out, nil
}

// write updates the annotation. An empty one means that there is nothing to pull, and that this was counted.
func (c *Controller) write(ctx context.Context, have *corev1.Node, list List) error {
	before, told := have.Annotations[catalog.PrefetchAnnotation]
	if told && before == list.String() {
		return nil
	}
	want := have.DeepCopy()
	metav1.SetMetaDataAnnotation(&want.ObjectMeta, catalog.PrefetchAnnotation, list.String())
	if err := nodeobj.Patch(ctx, c.config.Client, have, want); err != nil {
		return fmt.Errorf("writing the list of images: %w", err)
	}
	c.count(before, told, list)
	return nil
}

// count adds a written list to the metrics: the images that the one before lacked, and, for the first of a Node, those that are left out.
func (c *Controller) count(before string, told bool, list List) {
	known := strings.Split(before, ",")
	for _, image := range list.Images {
		if !slices.Contains(known, image) {
			c.metrics.images.WithLabelValues(string(Listed)).Inc()
		}
	}
	if !told {
		for outcome, n := range list.Skipped {
			c.metrics.images.WithLabelValues(string(outcome)).Add(float64(n))
		}
	}
}
