package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/node"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// resume looks for the instances of a call that an earlier process made, or was about to make, and deals what it finds. Only
// after lookFor without enough of them does a new attempt begin, with a new id: EC2 shows an instance late, and a second
// call would buy it twice.
func (g *group) resume(ctx context.Context) error {
	if g.lost.IsZero() {
		g.lost = time.Now()
	}
	found, err := g.unowned(ctx)
	if err != nil {
		return err
	}
	if len(found) < len(g.claims) && time.Since(g.lost) < lookFor {
		return nil
	}
	if err := g.deal(ctx, found); err != nil {
		return err
	}
	g.id, g.lost = "", time.Time{}
	return nil
}

// unowned are the live instances of the attempt that no claim has, in the order of their ids.
func (g *group) unowned(ctx context.Context) ([]cloud.Instance, error) {
	instances, err := g.config.Cloud.Instances(ctx, cloud.Selector{LaunchIDs: []string{g.id}})
	if err != nil {
		return nil, err
	}
	var list karpv1.NodeClaimList
	if err := g.config.Reader.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("listing NodeClaims: %w", err)
	}
	owned := map[string]bool{}
	for i := range list.Items {
		owned[list.Items[i].Status.ProviderID] = true
	}
	return slices.DeleteFunc(instances, func(i cloud.Instance) bool { return !alive(i) || owned[i.ProviderID()] }), nil
}

// deal gives each claim, in the order of names, one instance, in the order of ids. Surplus is terminated.
func (g *group) deal(ctx context.Context, instances []cloud.Instance) error {
	slices.SortFunc(instances, func(a, b cloud.Instance) int { return cmp.Compare(a.ID, b.ID) })
	n := min(len(instances), len(g.claims))
	offered, err := g.types(ctx)
	if err != nil {
		return err
	}
	claims := g.claims[:n]
	pairs := make(map[types.UID]cloud.Instance, n)
	for i, c := range claims {
		pairs[c.UID] = instances[i]
	}
	results := each(claims, func(c *karpv1.NodeClaim) error { return g.launched(ctx, c, pairs[c.UID], offered) })
	var left []*karpv1.NodeClaim
	var surplus []string
	for i, c := range claims {
		if client.IgnoreNotFound(results[i]) != nil {
			left = append(left, c)
		} else if results[i] != nil {
			surplus = append(surplus, instances[i].ID) // Its claim is gone: nobody else will ask for it.
		}
	}
	for _, i := range instances[n:] {
		surplus = append(surplus, i.ID)
	}
	g.claims = append(left, g.claims[n:]...)
	if len(surplus) > 0 {
		klog.FromContext(ctx).Info("Terminating instances that no NodeClaim needs", "instanceIDs", surplus)
		if err := g.config.Cloud.Terminate(ctx, surplus); err != nil {
			return err
		}
	}
	if len(left) > 0 {
		// Their instances are known to EC2 by the attempt's id: the next round finds them.
		g.asked = false
		return errors.Join(results...)
	}
	return nil
}

func (g *group) types(ctx context.Context) (map[string]catalog.InstanceType, error) {
	class := &awsv1.EC2NodeClass{}
	if err := g.config.Client.Get(ctx, types.NamespacedName{Name: g.claims[0].Spec.NodeClassRef.Name}, class); err != nil {
		return nil, err
	}
	list, err := g.config.Cloud.InstanceTypes(ctx, class)
	if err != nil {
		return nil, err
	}
	out := make(map[string]catalog.InstanceType, len(list))
	for _, t := range list {
		out[t.Name] = t
	}
	return out, nil
}

// launched writes down which instance a claim has: the labels it follows from first, then the status, which is the record.
func (g *group) launched(ctx context.Context, c *karpv1.NodeClaim, instance cloud.Instance, offered map[string]catalog.InstanceType) error {
	t := offered[instance.InstanceType]
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := g.config.Reader.Get(ctx, client.ObjectKeyFromObject(c), c); err != nil {
			return err
		}
		before := c.DeepCopy()
		maps.Copy(c.Labels, t.Labels)
		c.Labels[karpv1.CapacityTypeLabelKey] = instance.CapacityType
		maps.Copy(c.Labels, node.Labels(c, instance))
		delete(c.Labels, corev1.LabelHostname)
		c.Annotations[catalog.ExpectedAnnotation] = record.FormatExpected(instance.InstanceType, instance.Zone, instance.CapacityType, price(t, instance))
		return g.config.Client.Patch(ctx, c, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
	if err != nil {
		return fmt.Errorf("writing labels of NodeClaim %s: %w", c.Name, err)
	}
	before := c.DeepCopy()
	c.Status.ProviderID, c.Status.ImageID = instance.ProviderID(), instance.ImageID
	c.Status.NodeName = instance.PrivateDNSName
	c.Status.Capacity, c.Status.Allocatable = t.Capacity, t.Allocatable
	c.StatusConditions().SetTrue(karpv1.ConditionTypeLaunched)
	if err := g.config.Client.Status().Patch(ctx, c, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("writing status of NodeClaim %s: %w", c.Name, err)
	}
	klog.FromContext(ctx).Info("launched nodeclaim", "nodeClaim", klog.KObj(c), "instanceID", instance.ID, "node", instance.PrivateDNSName,
		"instanceType", instance.InstanceType, "zone", instance.Zone, "capacityType", instance.CapacityType)
	g.metrics.launched.WithLabelValues(c.Labels[karpv1.NodePoolLabelKey]).Inc()
	tags := map[string]string{"karpenter.sh/nodeclaim": c.Name, "Name": instance.PrivateDNSName}
	if err := g.config.Cloud.Tag(ctx, instance.ID, tags); err != nil {
		// The record is the claim; the tag is for humans and bills.
		klog.FromContext(ctx).Error(err, "Instance could not be tagged", "nodeClaim", klog.KObj(c), "instanceID", instance.ID)
	}
	return nil
}

func price(t catalog.InstanceType, i cloud.Instance) float64 {
	for _, o := range t.Offerings {
		if o.Zone == i.Zone && o.CapacityType == i.CapacityType {
			return o.Price
		}
	}
	return 0
}

// fail ends claims that got no instance: condition, Event, the stream's ending, deletion.
func (g *group) fail(ctx context.Context, claims []*karpv1.NodeClaim, reason, message string) error {
	var errs []error
	for _, c := range claims {
		before := c.DeepCopy()
		c.StatusConditions().SetFalse(karpv1.ConditionTypeLaunched, reason, message)
		if err := g.config.Client.Status().Patch(ctx, c, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("writing status of NodeClaim %s: %w", c.Name, err))
			continue
		}
		klog.FromContext(ctx).Info("Launch failed", "nodeClaim", klog.KObj(c), "reason", reason, "message", message)
		event := map[string]string{"InsufficientCapacity": "InsufficientCapacityError"}[reason]
		g.config.Events.Eventf(c, corev1.EventTypeWarning, cmp.Or(event, reason), "%s", message)
		g.config.Failed(c, reason, message)
		if err := g.config.Client.Delete(ctx, c, client.Preconditions{UID: &c.UID}); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("deleting NodeClaim %s: %w", c.Name, err))
		}
	}
	g.claims = slices.DeleteFunc(g.claims, func(c *karpv1.NodeClaim) bool { return slices.Contains(claims, c) })
	return errors.Join(errs...)
}

// each calls f for all claims at once and returns its answers in their order.
func each(claims []*karpv1.NodeClaim, f func(*karpv1.NodeClaim) error) []error {
	out := make([]error, len(claims))
	var wg sync.WaitGroup
	for i, c := range claims {
		wg.Go(func() { out[i] = f(c) })
	}
	wg.Wait()
	return out
}
