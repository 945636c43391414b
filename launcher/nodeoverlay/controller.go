package nodeoverlay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/apis/v1alpha1"

	"github.com/slipway-k8s/slipway/internal/announce"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/overlay"
	"github.com/slipway-k8s/slipway/launcher/leadership"
)

// period is how often conflicts are searched again without a change of an object: offerings come and go.
const period = time.Minute

// ReasonNotApplied is the reason of the Event on a NodeOverlay that is not applied.
const ReasonNotApplied = "NodeOverlayNotApplied"

// ReasonUnmatched is the reason of the condition and of the Event on a NodeOverlay whose requirements nothing meets.
const ReasonUnmatched = "NodeOverlayMatchesNothing"

// Offers is the part of cloud.Cloud that lists what can be launched.
type Offers interface {
	// InstanceTypes returns the instance types of the class. The list is shared and not changed.
	InstanceTypes(ctx context.Context, class *awsv1.EC2NodeClass) ([]catalog.InstanceType, error)
}

// Config holds the dependencies of a Controller. Every field is required.
type Config struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Offers lists the instance types of a class.
	Offers Offers
	// Guard allows effects only while this replica leads.
	Guard leadership.Guard
	// Events records Events.
	Events announce.EventRecorder
}

// Controller applies NodeOverlays. Its methods may be called from any goroutine.
type Controller struct {
	config Config

	mu   sync.Mutex
	last memory
}

// New returns a Controller; SetupWithManager starts it.
func New(c Config) (*Controller, error) {
	if c.Client == nil || c.Offers == nil || c.Guard == nil || c.Events == nil {
		return nil, errors.New("nodeoverlay: Client, Offers, Guard and Events are required")
	}
	return &Controller{config: c}, nil
}

// Served reports whether the API server has the CRD of NodeOverlays. Where it has not, that is logged, and prices and capacities are AWS's.
func Served(mapper meta.RESTMapper) (bool, error) {
	_, err := mapper.RESTMapping(schema.GroupKind{Group: "karpenter.sh", Kind: "NodeOverlay"}, "v1alpha1")
	if err == nil {
		return true, nil
	}
	if !meta.IsNoMatchError(err) {
		return false, fmt.Errorf("finding the CRD of NodeOverlays: %w", err)
	}
	klog.Background().Info("The feature gate NodeOverlay has no effect: the cluster has no CRD nodeoverlays.karpenter.sh; install it and restart the launcher")
	return false, nil
}

// SetupWithManager registers the controller. One request stands for all NodeOverlays: each is compared with each.
func (c *Controller) SetupWithManager(mgr manager.Manager) error {
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: "all"}}}
	})
	specs := builder.WithPredicates(predicate.GenerationChangedPredicate{})
	return builder.ControllerManagedBy(mgr).Named("nodeoverlay").
		Watches(&v1alpha1.NodeOverlay{}, all, specs).
		Watches(&karpv1.NodePool{}, all, specs).
		Watches(&awsv1.EC2NodeClass{}, all).
		WithOptions(controller.Options{MaxConcurrentReconciles: 1}).
		Complete(reconcile.Func(c.Reconcile))
}

// Reconcile writes the conditions of all NodeOverlays.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	return leadership.Reconciler(c.config.Guard, c.reconcile)(ctx, req)
}

// reconcile judges all NodeOverlays together. One that cannot be written does not stop the others.
func (c *Controller) reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	result, err := c.evaluate(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	list := &v1alpha1.NodeOverlayList{}
	if err := c.config.Client.List(ctx, list); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing NodeOverlays: %w", err)
	}
	var errs []error
	for i := range list.Items {
		if verdict, ok := result.Verdicts[list.Items[i].Name]; ok {
			errs = append(errs, c.report(ctx, &list.Items[i], verdict))
		}
	}
	return reconcile.Result{RequeueAfter: period}, errors.Join(errs...)
}

// report writes the verdict on a NodeOverlay if it is another one.
func (c *Controller) report(ctx context.Context, o *v1alpha1.NodeOverlay, v overlay.Verdict) error {
	before := o.DeepCopy()
	switch {
	case v.Unmatched:
		o.StatusConditions().SetTrueWithReason(v1alpha1.ConditionTypeValidationSucceeded, ReasonUnmatched, v.Message)
	case v.Reason == "":
		o.StatusConditions().SetTrue(v1alpha1.ConditionTypeValidationSucceeded)
	default:
		o.StatusConditions().SetFalse(v1alpha1.ConditionTypeValidationSucceeded, v.Reason, v.Message)
	}
	if equality.Semantic.DeepEqual(before.Status, o.Status) {
		return nil
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.config.Client.Status().Patch(ctx, o, patch); err != nil {
		return client.IgnoreNotFound(fmt.Errorf("writing status of NodeOverlay %s: %w", o.Name, err))
	}
	log := klog.FromContext(ctx)
	if v.Unmatched {
		log.Info("NodeOverlay matches nothing", "NodeOverlay", o.Name)
		c.config.Events.Eventf(o, corev1.EventTypeWarning, ReasonUnmatched, "%s", v.Message)
		return nil
	}
	if v.Reason == "" {
		log.V(2).Info("NodeOverlay is applied", "NodeOverlay", o.Name)
		return nil
	}
	log.Info("NodeOverlay is not applied", "NodeOverlay", o.Name, "reason", v.Reason, "message", v.Message)
	c.config.Events.Eventf(o, corev1.EventTypeWarning, ReasonNotApplied, "%s: %s", v.Reason, v.Message)
	return nil
}
