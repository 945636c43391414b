package drift

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership"
)

const (
	workers = 4
	// period is how often a claim is looked at for what changes in AWS alone (Karpenter, 5 min).
	period = 5 * time.Minute
)

// Cloud is what drift needs of one; cloud.Cloud is one.
type Cloud interface {
	// InstanceTypes lists what can be launched from a class.
	InstanceTypes(ctx context.Context, class *awsv1.EC2NodeClass) ([]catalog.InstanceType, error)
	// Instances describes those of the cluster.
	Instances(ctx context.Context, sel cloud.Selector) ([]cloud.Instance, error)
}

// Config is what a Detector is made of. Every field is required but Ours.
type Config struct {
	// Client reads from the cache, with the indexes of package index, and writes.
	Client client.Client
	// Cloud is asked for types and instances.
	Cloud Cloud
	// Guard lets effects happen while leading only.
	Guard leadership.Guard
	// Ours says whether a claim is ours to judge: a live Karpenter's are not. Nil means all are.
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
		})).
		Watches(&awsv1.EC2NodeClass{}, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
			return d.claims(ctx, nil, func(c *karpv1.NodeClaim) bool {
				return c.Spec.NodeClassRef != nil && c.Spec.NodeClassRef.Name == o.GetName()
			})
		})).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(reconcile.Func(d.Reconcile))
}

// claims lists what to look at again; a cache that fails delays it to the next period.
func (d *Detector) claims(ctx context.Context, sel client.MatchingFields, keep func(*karpv1.NodeClaim) bool) []reconcile.Request {
	list := &karpv1.NodeClaimList{}
	var options []client.ListOption
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

// Reconcile looks at one NodeClaim.
func (d *Detector) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	return leadership.Reconciler(d.config.Guard, d.reconcile)(ctx, req)
}

func (d *Detector) reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	claim := &karpv1.NodeClaim{}
	if err := d.config.Client.Get(ctx, req.NamespacedName, claim); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if claim.DeletionTimestamp != nil || !claim.StatusConditions().IsTrue(karpv1.ConditionTypeLaunched) || !d.config.Ours(claim) {
		return reconcile.Result{RequeueAfter: period}, nil
	}
	facts, err := d.facts(ctx, claim)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("drift of NodeClaim %s: %w", claim.Name, err)
	}
	if facts == nil {
		return reconcile.Result{RequeueAfter: period}, nil
	}
	drift := Decide(*facts)
	if drift.Reason == CapacityReservationDrift {
		if drift, err = d.again(ctx, facts); err != nil {
			return reconcile.Result{}, fmt.Errorf("drift of NodeClaim %s: %w", claim.Name, err)
		}
	}
	return reconcile.Result{RequeueAfter: period}, d.write(ctx, claim, drift)
}

// again decides with what EC2 says of the instance now: one whose capacity reservation has ended runs on as on-demand, and does not
// drift because its class no longer selects what is gone.
func (d *Detector) again(ctx context.Context, facts *Facts) (Drift, error) {
	now, err := d.instances.ask(ctx, d.config.Cloud, facts.Instance.ID)
	if err != nil {
		return Drift{}, err
	}
	facts.Instance = now
	return Decide(*facts), nil
}

// facts gathers what is known of a claim; nil where its NodePool or class is gone, or not ready: what they ask for is not
// known then.
func (d *Detector) facts(ctx context.Context, claim *karpv1.NodeClaim) (*Facts, error) {
	pool, class := &karpv1.NodePool{}, &awsv1.EC2NodeClass{}
	if err := d.config.Client.Get(ctx, client.ObjectKey{Name: claim.Labels[karpv1.NodePoolLabelKey]}, pool); err != nil {
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
	if out.Types, err = d.config.Cloud.InstanceTypes(ctx, class); err != nil {
		return nil, err
	}
	id := claim.Status.ProviderID[strings.LastIndexByte(claim.Status.ProviderID, '/')+1:]
	out.Instance, err = d.instances.get(ctx, d.config.Cloud, id)
	return out, err
}

// write says what was found, if it is news.
func (d *Detector) write(ctx context.Context, claim *karpv1.NodeClaim, drift Drift) error {
	before := claim.DeepCopy()
	set := claim.StatusConditions()
	switch {
	case drift.Reason == "" && set.Get(karpv1.ConditionTypeDrifted) == nil:
		return nil
	case drift.Reason == "":
		if err := set.Clear(karpv1.ConditionTypeDrifted); err != nil {
			return fmt.Errorf("clear condition Drifted of NodeClaim %s: %w", claim.Name, err)
		}
	default:
		set.SetTrueWithReason(karpv1.ConditionTypeDrifted, drift.Reason, drift.Message)
	}
	had, has := before.StatusConditions().Get(karpv1.ConditionTypeDrifted), set.Get(karpv1.ConditionTypeDrifted)
	if had != nil && has != nil && had.Reason == has.Reason && had.Message == has.Message && had.Status == has.Status {
		return nil
	}
	if err := d.config.Client.Status().Patch(ctx, claim, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})); err != nil {
		return client.IgnoreNotFound(err)
	}
	klog.FromContext(ctx).Info("Drift of a node has changed", "nodeClaim", klog.KObj(claim), "node", claim.Status.NodeName,
		"reason", drift.Reason, "message", drift.Message)
	return nil
}

// instances are those of the cluster as they were a short time ago. What drift looks at of an instance does not change, but for the
// end of its capacity reservation.
type instances struct {
	mu    sync.Mutex
	at    time.Time
	known map[string]cloud.Instance
}

// get returns an instance; nil where it is not known yet.
func (i *instances) get(ctx context.Context, from Cloud, id string) (*cloud.Instance, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if found, ok := i.known[id]; ok {
		return &found, nil
	}
	if time.Since(i.at) < period && i.known != nil {
		return nil, nil
	}
	list, err := from.Instances(ctx, cloud.Selector{})
	if err != nil {
		return nil, err
	}
	i.at, i.known = time.Now(), make(map[string]cloud.Instance, len(list))
	for _, one := range list {
		i.known[one.ID] = one
	}
	if found, ok := i.known[id]; ok {
		return &found, nil
	}
	return nil, nil
}

// ask asks for an instance, whatever is known of it; nil where EC2 does not know it.
func (i *instances) ask(ctx context.Context, from Cloud, id string) (*cloud.Instance, error) {
	list, err := from.Instances(ctx, cloud.Selector{IDs: []string{id}})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.known[id] = list[0]
	return &list[0], nil
}
