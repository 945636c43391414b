package drift

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership"
	nodeobj "github.com/slipway-k8s/slipway/launcher/node"
)

const (
	workers = 4
	// period is how often a claim is checked for changes that only AWS shows, with a description of its instance that is at most as old as knownFor.
	// Their sum is the time in which such a change is seen (Karpenter, 5 min).
	period   = 3 * time.Minute
	knownFor = 2 * time.Minute
	// askAgain is when EC2 is asked again after an error.
	askAgain = 30 * time.Second
)

// Cloud is the part of cloud.Cloud that drift uses.
type Cloud interface {
	// AllInstanceTypes lists the types that EC2 offers for a class, those without a known price included.
	AllInstanceTypes(ctx context.Context, class *awsv1.EC2NodeClass) ([]catalog.InstanceType, error)
	// Instances describes the instances of the cluster.
	Instances(ctx context.Context, sel cloud.Selector) ([]cloud.Instance, error)
}

// Config holds the dependencies of a Detector. Every field is required but Ours.
type Config struct {
	// Client reads from the cache, with the indexes of package index, and writes.
	Client client.Client
	// Cloud lists types and instances.
	Cloud Cloud
	// Guard allows effects only while this process leads.
	Guard leadership.Guard
	// Ours reports whether the launcher manages a claim: not if a running Karpenter does. Nil means that it manages all.
	Ours func(claim *karpv1.NodeClaim) bool
}

// Detector writes the condition Drifted.
type Detector struct {
	config    Config
	instances instances
}

// New returns a Detector; SetupWithManager starts it.
func New(c Config) (*Detector, error) {
	if c.Client == nil || c.Cloud == nil || c.Guard == nil {
		return nil, errors.New("drift: Client, Cloud and Guard are required")
	}
	if c.Ours == nil {
		c.Ours = func(*karpv1.NodeClaim) bool { return true }
	}
	return &Detector{config: c}, nil
}

// SetupWithManager registers the controller.
func (d *Detector) SetupWithManager(mgr manager.Manager) error {
	return builder.ControllerManagedBy(mgr).Named("nodeclaim.drift").
		For(&karpv1.NodeClaim{}).
		Watches(&karpv1.NodePool{}, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
			return d.claims(ctx, client.MatchingFields{index.ClaimNodePool: o.GetName()}, nil)
		}), builder.WithPredicates(index.PoolChanges())).
		Watches(&awsv1.EC2NodeClass{}, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
			return d.claims(ctx, nil, func(c *karpv1.NodeClaim) bool {
				return c.Spec.NodeClassRef != nil && c.Spec.NodeClassRef.Name == o.GetName()
			})
		}), builder.WithPredicates(classChanges())).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(reconcile.Func(d.Reconcile))
}

// classChanges are the changes of an EC2NodeClass that its NodeClaims are examined for: all but those of what its nodes report. No drift follows from
// that, and while nodes start it changes once a minute and more often.
func classChanges() predicate.Funcs {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, ok := e.ObjectOld.(*awsv1.EC2NodeClass)
		after, also := e.ObjectNew.(*awsv1.EC2NodeClass)
		return !ok || !also || !equality.Semantic.DeepEqual(withoutReports(before), withoutReports(after))
	}}
}

// withoutReports returns a class without what its nodes report, and without what each write changes.
func withoutReports(class *awsv1.EC2NodeClass) *awsv1.EC2NodeClass {
	out := *class
	out.Annotations = maps.Clone(class.Annotations)
	delete(out.Annotations, catalog.LearnedAnnotation)
	out.ResourceVersion, out.ManagedFields = "", nil
	return &out
}

// claims lists the claims to reconcile. If the cache fails, they are reconciled after period.
func (d *Detector) claims(ctx context.Context, sel client.MatchingFields, keep func(*karpv1.NodeClaim) bool) []reconcile.Request {
	list := &karpv1.NodeClaimList{}
	options := []client.ListOption{client.UnsafeDisableDeepCopy}
	if sel != nil {
		options = append(options, sel)
	}
	if err := d.config.Client.List(ctx, list, options...); err != nil {
		return nil
	}
	var out []reconcile.Request
	for i := range list.Items {
		if keep == nil || keep(&list.Items[i]) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return out
}

// Reconcile updates the condition Drifted of one NodeClaim.
func (d *Detector) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	return leadership.Reconciler(d.config.Guard, d.reconcile)(ctx, req)
}

func (d *Detector) reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	claim := &karpv1.NodeClaim{}
	if err := d.config.Client.Get(ctx, req.NamespacedName, claim, client.UnsafeDisableDeepCopy); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if claim.DeletionTimestamp != nil || !conditions.ClaimIs(claim, karpv1.ConditionTypeLaunched) || !d.config.Ours(claim) {
		return reconcile.Result{RequeueAfter: period}, nil
	}
	facts, err := d.facts(ctx, claim)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("deciding about drift of NodeClaim %s: %w", claim.Name, err)
	}
	if facts == nil {
		return reconcile.Result{RequeueAfter: period}, nil
	}
	drift := Decide(*facts)
	if drift.Reason == CapacityReservationDrift {
		if drift, err = d.again(ctx, facts); err != nil {
			return reconcile.Result{}, fmt.Errorf("deciding about drift of NodeClaim %s: %w", claim.Name, err)
		}
	}
	return reconcile.Result{RequeueAfter: period}, d.write(ctx, claim, drift)
}

// again decides with the current state of the instance in EC2. When a capacity reservation ends, its instances become
// on-demand. They have not drifted, though the class no longer selects the reservation.
func (d *Detector) again(ctx context.Context, facts *Facts) (Drift, error) {
	now, err := d.instances.ask(ctx, d.config.Cloud, facts.Instance.ID)
	if err != nil {
		return Drift{}, err
	}
	facts.Instance = now
	return Decide(*facts), nil
}

// facts gathers the facts about a claim; nil where its NodePool or class does not exist, or the class is not Ready.
func (d *Detector) facts(ctx context.Context, claim *karpv1.NodeClaim) (*Facts, error) {
	pool, class := &karpv1.NodePool{}, &awsv1.EC2NodeClass{}
	if err := d.config.Client.Get(ctx, client.ObjectKey{Name: claim.Labels[karpv1.NodePoolLabelKey]}, pool, client.UnsafeDisableDeepCopy); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if pool.Spec.Template.Spec.NodeClassRef == nil {
		return nil, nil
	}
	if err := d.config.Client.Get(ctx, client.ObjectKey{Name: pool.Spec.Template.Spec.NodeClassRef.Name}, class); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if !class.StatusConditions().Root().IsTrue() {
		return nil, nil
	}
	out := &Facts{Now: time.Now(), Claim: claim, Pool: pool, Class: class}
	var err error
	if out.Types, err = d.config.Cloud.AllInstanceTypes(ctx, class); err != nil {
		return nil, err
	}
	id := claim.Status.ProviderID[strings.LastIndexByte(claim.Status.ProviderID, '/')+1:]
	out.Instance, err = d.instances.get(ctx, d.config.Cloud, id)
	return out, err
}

// write updates the condition Drifted where the decision has changed.
func (d *Detector) write(ctx context.Context, claim *karpv1.NodeClaim, drift Drift) error {
	had := conditions.Claim(claim, karpv1.ConditionTypeDrifted)
	if drift.Reason == "" && had == nil || drift.Reason != "" && had.IsTrue() && had.Reason == drift.Reason && had.Message == drift.Message {
		return nil
	}
	before := claim
	claim = before.DeepCopy()
	if set := claim.StatusConditions(); drift.Reason != "" {
		set.SetTrueWithReason(karpv1.ConditionTypeDrifted, drift.Reason, drift.Message)
	} else if err := set.Clear(karpv1.ConditionTypeDrifted); err != nil {
		return fmt.Errorf("clearing condition Drifted of NodeClaim %s: %w", claim.Name, err)
	}
	if err := d.config.Client.Status().Patch(ctx, claim, nodeobj.ClaimStatus(before)); err != nil {
		return client.IgnoreNotFound(err)
	}
	klog.FromContext(ctx).Info("Drift of a node has changed", "nodeClaim", klog.KObj(claim), "node", claim.Status.NodeName,
		"reason", drift.Reason, "message", drift.Message)
	return nil
}

// instances caches the instances of the cluster, so that one call answers for all claims.
type instances struct {
	mu sync.Mutex
	// next is when they are listed again.
	next time.Time
	byID map[string]cloud.Instance
}

// get returns an instance; nil where it is not listed yet. While EC2 returns errors, it is the one of the last list.
func (i *instances) get(ctx context.Context, from Cloud, id string) (*cloud.Instance, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if !time.Now().Before(i.next) {
		if err := i.list(ctx, from); err != nil {
			return nil, err
		}
	}
	if found, ok := i.byID[id]; ok {
		return &found, nil
	}
	return nil, nil
}

// list lists the instances. It returns an error only if there is no earlier list. The caller holds mu.
func (i *instances) list(ctx context.Context, from Cloud) error {
	list, err := from.Instances(ctx, cloud.Selector{})
	switch {
	case err != nil && i.byID == nil:
		return err
	case err != nil:
		klog.FromContext(ctx).Error(err, "Could not list instances: drift is decided with what is known of them; trying again")
		i.next = time.Now().Add(askAgain)
		return nil
	}
	i.next, i.byID = time.Now().Add(knownFor), make(map[string]cloud.Instance, len(list))
	for _, one := range list {
		i.byID[one.ID] = one
	}
	return nil
}

// ask reads an instance from EC2, past the cache; nil where EC2 does not list it.
func (i *instances) ask(ctx context.Context, from Cloud, id string) (*cloud.Instance, error) {
	list, err := from.Instances(ctx, cloud.Selector{IDs: []string{id}})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.byID[id] = list[0]
	return &list[0], nil
}
