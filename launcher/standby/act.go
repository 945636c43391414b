package standby

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/finalizer"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/node"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// act executes a decision, and returns when to look again. Its writes come back as events.
func (c *Controller) act(ctx context.Context, o Observed, d Decision) (time.Duration, error) {
	pool := o.Claim.Labels[karpv1.NodePoolLabelKey]
	switch d.Do {
	case Wait:
		return d.After, nil
	case Keep:
		return 0, c.keep(ctx, o.Claim, d.Message)
	case Stop:
		return c.stop(ctx, o, d.Message)
	case Sleep:
		return pollNeed, c.sleep(ctx, o)
	case Start:
		return c.start(ctx, o)
	case Replace:
		return pollNeed, c.replace(ctx, o.Claim)
	case End:
		if d.Reason == NotStarted {
			c.metrics.wakes.WithLabelValues(pool, resultFailed).Inc()
		}
		return 0, c.end(ctx, o.Claim, d.Reason, d.Message)
	}
	return 0, nil
}

// enter writes the state of the claim's instance. A pod that is promised the node meanwhile makes the write fail.
func (c *Controller) enter(ctx context.Context, claim *karpv1.NodeClaim, state record.StandbyState) error {
	return c.write(ctx, claim.DeepCopy(), claim, state)
}

// write writes the state together with what else differs from before.
func (c *Controller) write(ctx context.Context, before, claim *karpv1.NodeClaim, state record.StandbyState) error {
	if state == record.StandbyPreparing {
		delete(claim.Annotations, catalog.StandbyStateAnnotation)
	} else {
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, catalog.StandbyStateAnnotation, record.FormatStandby(state, time.Now()))
	}
	if err := c.config.Client.Patch(ctx, claim, node.ClaimMetadata(before)); err != nil {
		return fmt.Errorf("writing that NodeClaim %s is %s: %w", claim.Name, state, err)
	}
	klog.FromContext(ctx).V(2).Info("Standby", "nodeClaim", klog.KObj(claim), "state", state)
	return nil
}

// replace records that another instance is to take the place of the claim's. The scheduler plans the buffer's room elsewhere from then on.
func (c *Controller) replace(ctx context.Context, claim *karpv1.NodeClaim) error {
	before := claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&claim.ObjectMeta, catalog.StandbyExpiresAnnotation, "true")
	if err := c.config.Client.Patch(ctx, claim, node.ClaimMetadata(before)); err != nil {
		return fmt.Errorf("writing that NodeClaim %s expires soon: %w", claim.Name, err)
	}
	klog.FromContext(ctx).Info("An instance of a standby buffer expires soon, and another is launched first", "nodeClaim", klog.KObj(claim))
	return nil
}

// keep has the node join without a stop: it is promised to a pod, or a pod is there, as why says.
func (c *Controller) keep(ctx context.Context, claim *karpv1.NodeClaim, why string) error {
	before := claim.DeepCopy()
	if why != "" {
		metav1.SetMetaDataAnnotation(&claim.ObjectMeta, catalog.StandbyKeptAnnotation, why)
	}
	if err := c.write(ctx, before, claim, record.StandbyAwake); err != nil {
		return err
	}
	if why == "" {
		c.metrics.wakes.WithLabelValues(claim.Labels[karpv1.NodePoolLabelKey], resultKept).Inc()
		return nil
	}
	c.config.Events.Eventf(claim, corev1.EventTypeNormal, "StandbyKept", "Instance %s is not stopped, and its buffer has another one launched: %s", index.InstanceID(claim.Status.ProviderID), why)
	return nil
}

// condition writes the condition Standby, and those that say that the node does not run.
func (c *Controller) condition(ctx context.Context, claim *karpv1.NodeClaim, change func()) error {
	before := claim.DeepCopy()
	change()
	if equality.Semantic.DeepEqual(before.Status, claim.Status) {
		return nil
	}
	err := c.config.Client.Status().Patch(ctx, claim, node.ClaimStatus(before))
	if err != nil {
		return fmt.Errorf("writing status of NodeClaim %s: %w", claim.Name, err)
	}
	return nil
}

// stop stops the instance. What EC2 refuses for a reason that stays is said on the NodeClaim: the instance runs on, and is ready for its pods.
func (c *Controller) stop(ctx context.Context, o Observed, missing string) (time.Duration, error) {
	if record.StandbyOf(o.Claim).State != record.StandbyStopping {
		if err := c.enter(ctx, o.Claim, record.StandbyStopping); err != nil {
			return 0, err
		}
		klog.FromContext(ctx).Info("Stopping an instance for a standby buffer", "nodeClaim", klog.KObj(o.Claim), "missing", missing)
	}
	id := index.InstanceID(o.Claim.Status.ProviderID)
	hibernate, _, err := c.hibernation(ctx, o.Claim)
	if err != nil {
		return 0, err
	}
	call := &c.stops
	if hibernate {
		call = &c.hibernations
	}
	err = call.do(ctx, id)
	refused, is := cloud.AsPower(err)
	switch {
	case err == nil || cloud.IsNotFound(err):
		return pollStop, nil // An instance that does not exist is collected.
	case hibernate && is && aboutHibernation(refused):
		return c.notHibernated(ctx, o, refused)
	case is && refused.Cause.Passing():
		return pollStop, nil
	case !is:
		return 0, fmt.Errorf("stopping instance %s: %w", id, err)
	}
	c.remember(o.Claim.UID, func(r *remembered) { r.again = time.Now().Add(stopAgain) })
	c.config.Events.Eventf(o.Claim, corev1.EventTypeWarning, "StandbyNotStopped", "The instance runs on: %s", refused.Message)
	if err := c.condition(ctx, o.Claim, func() {
		o.Claim.StatusConditions().SetFalse(record.ConditionStandby, refused.Reason, refused.Message)
	}); err != nil {
		return 0, err
	}
	return pollNeed, c.enter(ctx, o.Claim, record.StandbyPreparing)
}

// sleep deletes the Node of a stopped instance, so that nothing counts it as capacity, and says what the instance is.
func (c *Controller) sleep(ctx context.Context, o Observed) error {
	claim := o.Claim
	if err := c.removeNode(ctx, claim); err != nil {
		return err
	}
	if err := c.removePods(ctx, claim); err != nil {
		return err
	}
	reason, is := asleep, "stopped"
	_, why, err := c.hibernation(ctx, claim)
	switch {
	case err != nil:
		return err
	case o.Hibernated:
		reason, is, why = hibernated, "hibernated", ""
	case why != "":
		why = ". It is not hibernated: " + why
	}
	if err := c.condition(ctx, claim, func() {
		set := claim.StatusConditions()
		set.SetTrueWithReason(record.ConditionStandby, reason, "The instance is "+is+" until a pod is promised its node"+why)
		set.SetUnknownWithReason(karpv1.ConditionTypeRegistered, record.ConditionStandby, "The instance is stopped")
		set.SetUnknownWithReason(karpv1.ConditionTypeInitialized, record.ConditionStandby, "The instance is stopped")
	}); err != nil {
		return err
	}
	if err := c.enter(ctx, claim, record.StandbyAsleep); err != nil {
		return err
	}
	c.metrics.stops.WithLabelValues(claim.Labels[karpv1.NodePoolLabelKey]).Inc()
	c.config.Events.Eventf(claim, corev1.EventTypeNormal, "StandbyAsleep", "Instance %s is %s and waits for pods%s", index.InstanceID(claim.Status.ProviderID), is, why)
	return nil
}

// removeNode deletes the Node without its finalizer: its end is not the NodeClaim's.
func (c *Controller) removeNode(ctx context.Context, claim *karpv1.NodeClaim) error {
	have, err := index.NodeOf(ctx, c.config.Client, claim)
	if err != nil || have == nil {
		return err
	}
	if finalizer.Guarded(have) {
		want := have.DeepCopy()
		finalizer.Release(want)
		if err := node.Patch(ctx, c.config.Client, have, want); err != nil {
			return fmt.Errorf("releasing the Node of a stopped instance: %w", err)
		}
	}
	if err := c.config.Client.Delete(ctx, have, client.Preconditions{UID: &have.UID}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting Node %s of a stopped instance: %w", have.Name, err)
	}
	return nil
}

// removePods deletes the pods of DaemonSets of a stopped instance. The node that wakes has the same name: its kubelet would start them again, and until it has
// looked at them they would count as running.
func (c *Controller) removePods(ctx context.Context, claim *karpv1.NodeClaim) error {
	if claim.Status.NodeName == "" {
		return nil
	}
	pods := &corev1.PodList{}
	if err := c.config.Client.List(ctx, pods, client.MatchingFields{index.PodNodeName: claim.Status.NodeName}); err != nil {
		return fmt.Errorf("listing pods of Node %s: %w", claim.Status.NodeName, err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if !disruption.OfDaemonSet(pod) {
			continue // It may have been promised the node, and bound, in this moment.
		}
		err := c.config.Client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting pod %s/%s of a stopped instance: %w", pod.Namespace, pod.Name, err)
		}
	}
	return nil
}

// start starts the instance. One that EC2 does not start ends, so that its pods have another node launched at once.
func (c *Controller) start(ctx context.Context, o Observed) (time.Duration, error) {
	claim := o.Claim
	if record.StandbyOf(claim).State != record.StandbyStarting {
		if err := c.enter(ctx, claim, record.StandbyStarting); err != nil {
			return 0, err
		}
	}
	id, pool := index.InstanceID(claim.Status.ProviderID), claim.Labels[karpv1.NodePoolLabelKey]
	err := c.starts.do(ctx, cloud.Instance{
		ID: id, InstanceType: claim.Labels[corev1.LabelInstanceTypeStable], Zone: claim.Labels[corev1.LabelTopologyZone],
		CapacityType: claim.Labels[karpv1.CapacityTypeLabelKey],
	})
	refused, is := cloud.AsPower(err)
	switch {
	case err == nil:
		c.metrics.wakes.WithLabelValues(pool, resultStarted).Inc()
		klog.FromContext(ctx).Info("Started an instance of a standby buffer", "nodeClaim", klog.KObj(claim), "instanceID", id)
		c.config.Events.Eventf(claim, corev1.EventTypeNormal, "StandbyWoken", "Instance %s was started for pods that are promised its node", id)
		return 0, c.enter(ctx, claim, record.StandbyAwake)
	case !cloud.IsNotFound(err) && (!is || refused.Cause.Passing()) && o.Now.Sub(record.StandbyOf(claim).Since) < startWithin:
		return startAgain, nil
	}
	result, message := resultFailed, err.Error()
	if is {
		message = refused.Message
		if ec2error.OfferingsFailed(refused.Reason) {
			result = resultCapacity
			c.config.Failed(claim, refused.Reason, message)
		}
	}
	c.metrics.wakes.WithLabelValues(pool, result).Inc()
	return 0, c.end(ctx, claim, NotStarted, message)
}

func (c *Controller) end(ctx context.Context, claim *karpv1.NodeClaim, reason, message string) error {
	klog.FromContext(ctx).Info("Ending a NodeClaim of a standby buffer", "nodeClaim", klog.KObj(claim), "reason", reason, "message", message)
	if reason == NotStarted {
		c.config.Events.Eventf(claim, corev1.EventTypeWarning, "StandbyNotStarted", "Its pods have another node launched: %s", message)
	}
	if err := c.config.Ender.Begin(ctx, claim, reason); err != nil {
		return err
	}
	c.remember(claim.UID, func(r *remembered) { r.ended = true })
	return nil
}
