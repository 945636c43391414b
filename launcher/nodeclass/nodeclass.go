package nodeclass

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/announce"
	"github.com/slipway-k8s/slipway/internal/provider"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/fromec2"
	"github.com/slipway-k8s/slipway/launcher/drift"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership"
)

const (
	// resolvePeriod is Karpenter's period of resolving AMIs and subnets again.
	resolvePeriod = time.Minute
	// waitPeriod is the period of repeating that a deletion waits for NodeClaims.
	waitPeriod = 10 * time.Minute
	workers    = 4
	// named is the maximum number of NodeClaims in an Event.
	named = 5
)

// Resolver is the part of cloud.Cloud that classes need.
type Resolver interface {
	// Resolve evaluates the class's selectors; it returns an error only if AWS could not be reached.
	Resolve(ctx context.Context, class *awsv1.EC2NodeClass) (awsv1.EC2NodeClassStatus, error)
	// Release deletes the cloud's resources of a class that is being deleted.
	Release(ctx context.Context, class *awsv1.EC2NodeClass) error
}

// Config holds the dependencies of a Controller.
type Config struct {
	// Client reads from the cache, with the indexes of package index, and writes. Required.
	Client client.Client
	// Cloud resolves classes. Required.
	Cloud Resolver
	// Guard allows effects only while this replica leads. Required.
	Guard leadership.Guard
	// Events records Karpenter's Events. Required.
	Events announce.EventRecorder
	// Shared reports whether a Karpenter may be writing the same statuses; nil means that none ever does.
	Shared func() bool
	// Ours reports whether the launcher manages a claim: not if a running Karpenter does. Nil means that it manages all.
	Ours func(claim *karpv1.NodeClaim) bool
	// CABundle is the cluster's, PEM in base64, from the settings or from the launcher's own connection: it is part of the hash.
	CABundle *string
}

// Controller resolves EC2NodeClasses.
type Controller struct{ config Config }

// New returns a Controller; SetupWithManager starts it.
func New(c Config) (*Controller, error) {
	if c.Client == nil || c.Cloud == nil || c.Guard == nil || c.Events == nil {
		return nil, errors.New("nodeclass: Client, Cloud, Guard and Events are required")
	}
	if c.Shared == nil {
		c.Shared = func() bool { return false }
	}
	if c.Ours == nil {
		c.Ours = func(*karpv1.NodeClaim) bool { return true }
	}
	return &Controller{config: c}, nil
}

// SetupWithManager registers the controllers of classes and of their nodes' reports.
func (c *Controller) SetupWithManager(mgr manager.Manager) error {
	return errors.Join(c.setupClasses(mgr), c.setupLearning(mgr))
}

func (c *Controller) setupClasses(mgr manager.Manager) error {
	deletions := predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
	changes := predicate.Or(predicate.GenerationChangedPredicate{}, predicate.AnnotationChangedPredicate{})
	return builder.ControllerManagedBy(mgr).Named("nodeclass").
		For(&awsv1.EC2NodeClass{}, builder.WithPredicates(changes)).
		Watches(&karpv1.NodeClaim{}, handler.EnqueueRequestsFromMapFunc(classOf), builder.WithPredicates(deletions)).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Second, time.Minute),
		}).
		Complete(reconcile.Func(c.Reconcile))
}

func classOf(_ context.Context, o client.Object) []reconcile.Request {
	claim, ok := o.(*karpv1.NodeClaim)
	if !ok || claim.Spec.NodeClassRef == nil {
		return nil
	}
	return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: claim.Spec.NodeClassRef.Name}}}
}

// Reconcile updates one class.
func (c *Controller) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	return leadership.Reconciler(c.config.Guard, c.reconcile)(ctx, req)
}

func (c *Controller) reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	class := &awsv1.EC2NodeClass{}
	if err := c.config.Client.Get(ctx, req.NamespacedName, class); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if class.DeletionTimestamp != nil {
		return c.finalize(ctx, class)
	}
	unstamped := c.stamp(ctx, class) // A NodeClaim that cannot be written does not keep the class from being resolved.
	if err := c.expireReports(ctx, class); err != nil {
		return reconcile.Result{}, errors.Join(unstamped, err)
	}
	if err := c.resolve(ctx, class); err != nil || unstamped != nil {
		return reconcile.Result{}, errors.Join(unstamped, err)
	}
	return reconcile.Result{RequeueAfter: resolvePeriod}, nil
}

// stamp writes finalizer and hash. NodeClaims whose hash has another version come first.
func (c *Controller) stamp(ctx context.Context, class *awsv1.EC2NodeClass) error {
	// The hash of an unreadable class differs: its nodes would look drifted. For an alias of an unknown family Karpenter's hash function
	// ends the process.
	if class.Annotations[catalog.UnreadableAnnotation] != "" || !fromec2.AliasValid(class) {
		return nil
	}
	hash := drift.ClassHash(class, c.config.CABundle)
	claims := &karpv1.NodeClaimList{}
	if err := c.config.Client.List(ctx, claims, client.MatchingFields{index.ClaimNodeClass: class.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing NodeClaims of EC2NodeClass %s: %w", class.Name, err)
	}
	var ours []*karpv1.NodeClaim
	for i := range claims.Items {
		if c.config.Ours(&claims.Items[i]) {
			ours = append(ours, &claims.Items[i])
		}
	}
	unrenewed := hash.Renew(ctx, c.config.Client, ours)
	before := class.DeepCopy()
	controllerutil.AddFinalizer(class, awsv1.TerminationFinalizer)
	if unrenewed == nil {
		hash.Annotate(&class.ObjectMeta)
	}
	if equality.Semantic.DeepEqual(before, class) {
		return unrenewed
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.config.Client.Patch(ctx, class, patch); client.IgnoreNotFound(err) != nil {
		return errors.Join(unrenewed, fmt.Errorf("stamp EC2NodeClass %s: %w", class.Name, err))
	}
	return unrenewed
}

// resolve writes the status. If AWS cannot be reached, the last answer stays: its resources most likely still exist.
func (c *Controller) resolve(ctx context.Context, class *awsv1.EC2NodeClass) error {
	before := class.DeepCopy()
	resolved, err := c.config.Cloud.Resolve(ctx, class)
	if err == nil {
		Apply(class, resolved)
		if c.config.Shared() && before.Status.InstanceProfile != "" {
			class.Status.InstanceProfile = before.Status.InstanceProfile // Either's has the role. Both would write their own for ever.
		}
	} else if ctx.Err() == nil {
		class.StatusConditions() // This sets missing conditions to Unknown.
		klog.FromContext(ctx).Error(err, "Could not resolve EC2NodeClass", "nodeClass", klog.KObj(class))
	}
	if !equality.Semantic.DeepEqual(before.Status, class.Status) {
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := c.config.Client.Status().Patch(ctx, class, patch); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("writing status of EC2NodeClass %s: %w", class.Name, err)
		}
	}
	if err != nil {
		return fmt.Errorf("resolving EC2NodeClass %s: %w", class.Name, err)
	}
	return nil
}

// Apply copies a resolved status into the class: its lists unchanged, its conditions with the time of their last change and the observed
// generation. Ready is computed from them.
func Apply(class *awsv1.EC2NodeClass, resolved awsv1.EC2NodeClassStatus) {
	conditions := class.Status.Conditions
	class.Status = resolved
	class.Status.Conditions = conditions
	set := class.StatusConditions()
	for _, cond := range resolved.Conditions {
		if cond.Type == "Ready" {
			continue
		}
		set.Set(cond)
	}
	if why := class.Annotations[catalog.UnreadableAnnotation]; why != "" {
		set.SetFalse(awsv1.ConditionTypeValidationSucceeded, "Unreadable", why)
	}
	if class.Spec.PlacementGroupSelector == nil {
		set.SetTrue(awsv1.ConditionTypePlacementGroupReady)
	}
}

// finalize removes the finalizer once no NodeClaim refers to the class, of a running Karpenter's either. The index knows a class by its name alone: those of
// another provider may have a class of the same name.
func (c *Controller) finalize(ctx context.Context, class *awsv1.EC2NodeClass) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(class, awsv1.TerminationFinalizer) {
		return reconcile.Result{}, nil
	}
	claims := &karpv1.NodeClaimList{}
	if err := c.config.Client.List(ctx, claims, client.MatchingFields{index.ClaimNodeClass: class.Name}); err != nil {
		return reconcile.Result{}, fmt.Errorf("listing NodeClaims of EC2NodeClass %s: %w", class.Name, err)
	}
	if waits := slices.DeleteFunc(claims.Items, func(c karpv1.NodeClaim) bool { return provider.OthersClaim(&c) }); len(waits) > 0 {
		c.config.Events.Eventf(class, corev1.EventTypeNormal, "WaitingOnNodeClaimTermination", "Waiting on NodeClaim termination for %s", names(waits))
		return reconcile.Result{RequeueAfter: waitPeriod}, nil
	}
	if err := c.config.Cloud.Release(ctx, class); err != nil {
		return reconcile.Result{}, fmt.Errorf("release EC2NodeClass %s: %w", class.Name, err)
	}
	before := class.DeepCopy()
	controllerutil.RemoveFinalizer(class, awsv1.TerminationFinalizer)
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := c.config.Client.Patch(ctx, class, patch); client.IgnoreNotFound(err) != nil {
		return reconcile.Result{}, fmt.Errorf("let EC2NodeClass %s go: %w", class.Name, err)
	}
	return reconcile.Result{}, nil
}

func names(claims []karpv1.NodeClaim) string {
	out := make([]string, 0, len(claims))
	for _, c := range claims {
		out = append(out, c.Name)
	}
	slices.Sort(out)
	if more := len(out) - named; more > 0 {
		out = append(out[:named], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(out, ", ")
}
