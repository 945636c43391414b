package nodeclass

import (
	"context"
	"fmt"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/provider"
	"github.com/slipway-k8s/slipway/launcher/catalog/fromec2"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership"
)

// setupLearning registers the controller that records what nodes report. It has one worker: many nodes of one class join at once, and their
// reports often repeat each other.
func (c *Controller) setupLearning(mgr manager.Manager) error {
	return builder.ControllerManagedBy(mgr).Named("nodeclass.learn").
		For(&corev1.Node{}, builder.WithPredicates(reporting())).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(reconcile.Func(leadership.Reconciler(c.config.Guard, c.learn)))
}

// reporting selects nodes whose kubelet has joined: once, and again when their reported size changes.
func reporting() predicate.Funcs {
	return predicate.Funcs{
		CreateFunc:  func(e event.CreateEvent) bool { return joined(e.Object) },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, ok := e.ObjectOld.(*corev1.Node)
			after, also := e.ObjectNew.(*corev1.Node)
			return ok && also && joined(after) && (!joined(before) ||
				!equality.Semantic.DeepEqual(before.Status.Capacity, after.Status.Capacity) ||
				!equality.Semantic.DeepEqual(before.Status.Allocatable, after.Status.Allocatable))
		},
	}
}

func joined(o client.Object) bool { return o.GetLabels()[karpv1.NodeRegisteredLabelKey] == "true" }

// learn records a node's report in the class if it may change the values used. EC2 advertises more memory than the kernel finds, and the
// difference depends on instance type and AMI: the next node of the same type is planned with this report.
func (c *Controller) learn(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	node := &corev1.Node{}
	if err := c.config.Client.Get(ctx, req.NamespacedName, node); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	claims := &karpv1.NodeClaimList{}
	if err := c.config.Client.List(ctx, claims, client.MatchingFields{index.ClaimProviderID: node.Spec.ProviderID}); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing NodeClaims of node %s: %w", node.Name, err)
	}
	if len(claims.Items) != 1 || node.Spec.ProviderID == "" || node.Status.Capacity.Memory().Sign() <= 0 {
		return reconcile.Result{}, nil
	}
	claim := &claims.Items[0]
	// The NodeClaim has EC2's value; the kubelet can change the Node's label.
	instanceType := claim.Labels[corev1.LabelInstanceTypeStable]
	if claim.Spec.NodeClassRef == nil || provider.OthersClaim(claim) || claim.Status.ImageID == "" || instanceType == "" {
		return reconcile.Result{}, nil
	}
	class := &awsv1.EC2NodeClass{}
	if err := c.config.Client.Get(ctx, client.ObjectKey{Name: claim.Spec.NodeClassRef.Name}, class); err != nil || class.DeletionTimestamp != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	before := class.DeepCopy()
	key := fromec2.SizesKey(instanceType, claim.Status.ImageID)
	news, again := fromec2.Note(class, key, fromec2.Report{
		NodeClaim: claim.Name, At: metav1.Now(), Memory: *node.Status.Capacity.Memory(), Allocatable: node.Status.Allocatable,
		Class: claim.Annotations[awsv1.AnnotationEC2NodeClassHash],
	})
	if !news {
		return reconcile.Result{RequeueAfter: again}, nil
	}
	if err := c.patchReports(ctx, before, class); err != nil {
		return reconcile.Result{}, fmt.Errorf("writing what node %s reports: %w", node.Name, err)
	}
	klog.FromContext(ctx).Info("learned what nodes of an instance type and AMI report", "nodeClass", klog.KObj(class), "node", klog.KObj(node),
		"kind", key, "memory", node.Status.Capacity.Memory().String())
	return reconcile.Result{RequeueAfter: again}, nil
}

// expireReports removes expired reports of the class's nodes.
func (c *Controller) expireReports(ctx context.Context, class *awsv1.EC2NodeClass) error {
	before := class.DeepCopy()
	if !fromec2.ExpireReports(class, time.Now()) {
		return nil
	}
	if err := c.patchReports(ctx, before, class); err != nil {
		return fmt.Errorf("forgetting old reports: %w", err)
	}
	return nil
}

func (c *Controller) patchReports(ctx context.Context, before, class *awsv1.EC2NodeClass) error {
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.config.Client.Patch(ctx, class, patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("EC2NodeClass %s: %w", class.Name, err)
	}
	return nil
}
