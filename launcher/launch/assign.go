package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/finalizer"
	"github.com/slipway-k8s/slipway/launcher/leadership"
	"github.com/slipway-k8s/slipway/launcher/node"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// search looks for the instances of a call that an earlier process made, or was about to make. It adds all claims of that call to the group,
// because the instances can be assigned only with all waiting claims known. It gives up the group's claims that have another launch ID by now.
// It returns the instances that no claim has.
func (g *group) search(ctx context.Context) ([]cloud.Instance, error) {
	instances, err := g.config.Cloud.Instances(ctx, cloud.Selector{LaunchIDs: []string{g.id}, IDs: g.shown})
	if err != nil {
		return nil, err
	}
	if !g.since.IsZero() && time.Since(g.since) < lookFor && !slices.ContainsFunc(instances, alive) {
		return nil, nil // There is nothing to assign, and it is too early for another attempt.
	}
	all := g.lists.next(ctx)
	if all.err != nil {
		return nil, all.err
	}
	had := map[types.UID]bool{}
	for _, c := range g.claims {
		had[c.UID] = true
	}
	g.claims = nil
	for _, c := range all.waiting {
		switch {
		case c.Annotations[catalog.LaunchAnnotation] == g.id:
			g.claims = append(g.claims, c.DeepCopy())
		case had[c.UID]:
			g.yield(c)
		}
	}
	g.know(g.claims)
	for _, c := range g.claims {
		g.took[c.UID] = true
	}
	sortByName(g.claims)
	return slices.DeleteFunc(instances, func(i cloud.Instance) bool { return !alive(i) || all.owned[i.ProviderID()] }), nil
}

// resume assigns the instances found of a call whose answer was lost. If there are too few, a new attempt with a new ID begins only after
// lookFor: EC2 shows an instance late, and an earlier second call would buy it twice.
func (g *group) resume(ctx context.Context, found []cloud.Instance) error {
	if g.since.IsZero() {
		g.since = time.Now()
	}
	if err := g.assign(ctx, found); err != nil {
		return err
	}
	if len(g.claims) == 0 || g.shown != nil || time.Since(g.since) >= lookFor {
		g.done()
	}
	return nil
}

// receive waits until EC2 shows the instances and assigns them to the claims; the remaining claims need another attempt.
func (g *group) receive(ctx context.Context, ids []string) error {
	instances, err := g.visible(ctx, ids)
	if err != nil {
		return err
	}
	g.shown = ids
	if err := g.assign(ctx, instances); err != nil {
		return err
	}
	g.done()
	return nil
}

// assign assigns one instance, in the order of IDs, to each claim, in the order of names. Surplus instances are terminated.
func (g *group) assign(ctx context.Context, instances []cloud.Instance) error {
	slices.SortFunc(instances, func(a, b cloud.Instance) int { return cmp.Compare(a.ID, b.ID) })
	n := min(len(instances), len(g.claims))
	var offered map[string]catalog.InstanceType
	if n > 0 {
		var err error
		if offered, err = g.types(ctx); err != nil {
			return err
		}
	}
	claims := g.claims[:n]
	pairs := make(map[types.UID]cloud.Instance, n)
	for i, c := range claims {
		pairs[c.UID] = instances[i]
	}
	// From here on the call is not repeated even after an error: its instances may have a claim by now.
	g.asked = false
	results := each(claims, func(c *karpv1.NodeClaim) error { return g.launched(ctx, c, pairs[c.UID], offered) })
	var left []*karpv1.NodeClaim
	var surplus []cloud.Instance
	var failed error
	for i, c := range claims {
		switch {
		case errors.Is(results[i], errLaunched):
			// This instance may have another claim by now. If it has none, package collect terminates it.
		case errors.Is(results[i], errGone):
			surplus = append(surplus, instances[i]) // Another caller will not terminate it.
		case results[i] != nil:
			left = append(left, c)
			failed = errors.Join(failed, results[i])
		}
	}
	g.claims = append(left, g.claims[n:]...)
	if err := g.config.terminate(ctx, append(surplus, instances[n:]...)); err != nil {
		return err
	}
	return failed // The remaining claims' instances carry the attempt's ID: the next round finds them.
}

// types returns the class's instance types by name: those that the attempt chose from, or, for an earlier process's call, the current ones.
func (g *group) types(ctx context.Context) (map[string]catalog.InstanceType, error) {
	if g.offered != nil {
		return g.offered, nil
	}
	class, offered, err := g.config.offers(ctx, g.claims[0])
	g.profile = class.Status.InstanceProfile
	return offered, err
}

// errGone means that a claim was deleted, or is being deleted.
var errGone = errors.New("the NodeClaim is deleted")

// errLaunched means that a claim has its instance: it was recorded, and only the answer was lost, or another process or group recorded it.
var errLaunched = errors.New("the NodeClaim is launched")

// launched records a claim's instance: first the labels that follow from it, then the status, which is the record. A claim whose call an
// older release made may lack the finalizer. One that has another instance by now keeps it: that is errLaunched.
func (g *group) launched(ctx context.Context, c *karpv1.NodeClaim, instance cloud.Instance, offered map[string]catalog.InstanceType) error {
	t, written := offered[instance.InstanceType], func() {}
	err := g.write(ctx, c, func(have *karpv1.NodeClaim) error {
		if hasAnother(c, instance) {
			return errLaunched
		}
		finalizer.Guard(c)
		c.Labels = merge(c.Labels, t.Labels, map[string]string{
			karpv1.CapacityTypeLabelKey: instance.CapacityType, catalog.LabelInstanceTenancy: instance.Tenancy,
		}, reservationLabels(instance))
		c.Labels = node.Labels(c, instance)
		delete(c.Labels, corev1.LabelHostname)
		price(c, instance, t)
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, awsv1.AnnotationInstanceProfile, g.profile)
		written = g.config.Bindings(ctx, c)
		return g.config.Client.Patch(ctx, c, node.ClaimMetadata(have))
	})
	if err != nil {
		return fmt.Errorf("writing labels of NodeClaim %s: %w", c.Name, err)
	}
	written()
	err = g.write(ctx, c, func(have *karpv1.NodeClaim) error {
		if hasAnother(c, instance) {
			return errLaunched
		}
		c.Status.ProviderID, c.Status.ImageID = instance.ProviderID(), instance.ImageID
		c.Status.NodeName = instance.PrivateDNSName
		c.Status.Capacity, c.Status.Allocatable = t.Capacity, t.Allocatable
		if instance.EFAs == 0 { // Interfaces that its class names have EFAs without a request.
			c.Status.Capacity = catalog.WithRequested(t.Capacity, c.Spec.Resources.Requests)
			c.Status.Allocatable = catalog.WithRequested(t.Allocatable, c.Spec.Resources.Requests)
		}
		c.StatusConditions().SetTrue(karpv1.ConditionTypeLaunched)
		record.AwaitNode(c)
		return g.config.Client.Status().Patch(ctx, c, node.ClaimStatus(have))
	})
	if err != nil {
		return fmt.Errorf("writing status of NodeClaim %s: %w", c.Name, err)
	}
	klog.FromContext(ctx).Info("launched nodeclaim", "nodeClaim", klog.KObj(c), "instanceID", instance.ID, "node", instance.PrivateDNSName,
		"instanceType", instance.InstanceType, "zone", instance.Zone, "capacityType", instance.CapacityType, "plannedCost", c.Annotations[catalog.CostAnnotation])
	g.metrics.launched.WithLabelValues(c.Labels[karpv1.NodePoolLabelKey]).Inc()
	more := map[string]string{"karpenter.sh/nodeclaim": c.Name}
	if _, named := instance.Tags["Name"]; !named { // The class's spec.tags may have one.
		more["Name"] = instance.PrivateDNSName
	}
	g.tags.add(tag{instance.ID, more})
	return nil
}

// hasAnother reports whether a claim has an instance, and not this one.
func hasAnother(c *karpv1.NodeClaim, instance cloud.Instance) bool {
	return c.Status.ProviderID != "" && c.Status.ProviderID != instance.ProviderID()
}

// write has change write a claim over the version that it gets. After a conflict it reads the claim and repeats this: promises are written at the same time.
func (g *group) write(ctx context.Context, c *karpv1.NodeClaim, change func(have *karpv1.NodeClaim) error) error {
	uid, current := c.UID, c.DeepCopy()
	err := leadership.RetryOnConflict(func() error {
		if current == nil || current.ResourceVersion == "" {
			current = &karpv1.NodeClaim{}
			if err := g.config.Reader.Get(ctx, client.ObjectKeyFromObject(c), current); err != nil {
				return err
			}
		}
		if current.UID != uid || !current.DeletionTimestamp.IsZero() {
			return errGone
		}
		current.DeepCopyInto(c)
		have := current
		current = nil
		return change(have)
	})
	if apierrors.IsNotFound(err) {
		return errGone
	}
	return err
}

// notLaunched writes the condition of a claim that has no instance; errLaunched if it has one.
func (g *group) notLaunched(ctx context.Context, c *karpv1.NodeClaim, set func()) error {
	return g.write(ctx, c, func(have *karpv1.NodeClaim) error {
		if c.Status.ProviderID != "" {
			return errLaunched
		}
		set()
		return g.config.Client.Status().Patch(ctx, c, node.ClaimStatus(have))
	})
}

func merge(into map[string]string, more ...map[string]string) map[string]string {
	out := maps.Clone(into)
	if out == nil {
		out = map[string]string{}
	}
	for _, m := range more {
		maps.Copy(out, m)
	}
	return out
}

// reservationLabels returns the labels of a node in a capacity reservation.
func reservationLabels(i cloud.Instance) map[string]string {
	in := catalog.Offering{ReservationID: i.ReservationID, ReservationType: i.ReservationType, Interruptible: i.ReservationInterruptible}
	out := map[string]string{}
	for _, label := range catalog.ReservationLabelKeys() {
		if value, ok := in.ReservationLabel(label); ok {
			out[label] = value
		}
	}
	return out
}

func (g *group) visible(ctx context.Context, ids []string) ([]cloud.Instance, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	deadline := time.Now().Add(lookFor)
	for {
		instances, err := g.config.Cloud.Instances(ctx, cloud.Selector{IDs: ids})
		if err != nil {
			return nil, err
		}
		if len(instances) >= len(ids) || time.Now().After(deadline) {
			return slices.DeleteFunc(instances, func(i cloud.Instance) bool { return !alive(i) }), nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(glanceEvery):
		}
	}
}

func alive(i cloud.Instance) bool {
	return i.State == cloud.StatePending || i.State == cloud.StateRunning
}

// refresh reads the claims again and drops those that are deleted or being deleted. found is how many instances there are for them: while there
// are any, no claim is too late.
func (g *group) refresh(ctx context.Context, found int) error {
	read, err := readAgain(ctx, g.config.Reader, g.claims)
	if err != nil {
		return err
	}
	var kept, late []*karpv1.NodeClaim
	for i, c := range g.claims {
		current := read[i]
		switch {
		case current == nil, current.UID != c.UID, !current.DeletionTimestamp.IsZero(), current.Status.ProviderID != "":
			// Deleted, being deleted, or launched.
		case !g.mine[current.Annotations[catalog.LaunchAnnotation]]:
			g.yield(current)
		case found == 0 && time.Since(current.CreationTimestamp.Time) > record.LaunchTimeout:
			late = append(late, current)
		default:
			kept = append(kept, current)
		}
	}
	g.claims = kept
	if len(late) > 0 {
		return g.fail(ctx, late, ec2error.ReasonLaunchTimeout, fmt.Sprintf("no instance within %s: %s", record.LaunchTimeout, g.tooLate()))
	}
	return nil
}

// yield gives up a claim for which another leader began an attempt meanwhile: its call is handled like that of an earlier process.
func (g *group) yield(c *karpv1.NodeClaim) {
	g.Forget(c.UID)
	g.Enqueue(c)
}
