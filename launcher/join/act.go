package join

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/consistency"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership"
	"github.com/slipway-k8s/slipway/launcher/node"
	"github.com/slipway-k8s/slipway/launcher/record"
)

const (
	// reasonAfter is how long a node is not initialized for one reason until its NodeClaim shows the reason in place of another:
	// kube-controller-manager removes the taint of a node that was not Ready up to five seconds late.
	reasonAfter = 6 * time.Second
	// bindTries is the number of attempts of a binding, and bindAgain the pause between two: all of them fit into the time that the startup
	// taint stays.
	bindTries = 5
	bindAgain = 250 * time.Millisecond
)

// act executes a decision in the order of Decision's fields, and returns when to look again. Its writes come back as events, so that one
// call does one round.
func (c *Controller) act(ctx context.Context, o Observed, d Decision) (time.Duration, error) {
	switch {
	case d.End != "":
		d, err := confirm(ctx, c.config.Reader, o, d)
		if err != nil || d.End == "" {
			return confirmAgain, err
		}
		return 0, c.end(ctx, o.Claim, d.End, d.EndMessage)
	case d.CreateNode:
		return d.After, c.createNode(ctx, o.Claim)
	case o.Node == nil || d.Unregistered == multipleNodes:
		return d.After, c.condition(ctx, o, d)
	}
	if err := c.adopt(ctx, o, d); err != nil {
		return 0, err
	}
	after := c.bind(ctx, o, d)
	if d.RenewLease {
		if err := c.leases.renew(ctx, o.Claim.UID, o.Node); err != nil {
			return 0, err
		}
	}
	if err := c.mark(ctx, o, d); err != nil {
		return 0, err
	}
	// Bindings are reported before the claim is initialized: the claim is not reconciled after that, and package reject relies on the
	// record. No other condition waits for them.
	err := c.report(ctx, o, d)
	d.Initialize = d.Initialize && err == nil
	if held := c.held(o, &d); held > 0 && (after <= 0 || held < after) {
		after = held
	}
	return after, errors.Join(err, c.condition(ctx, o, d))
}

func (c *Controller) end(ctx context.Context, claim *karpv1.NodeClaim, reason, message string) error {
	klog.FromContext(ctx).Info("Node did not join", "nodeClaim", klog.KObj(claim), "reason", reason, "message", message)
	c.config.Failed(claim, reason, message)
	c.config.Events.Eventf(claim, corev1.EventTypeWarning, "NodeDidNotJoin", "%s", message)
	// An instance that EC2 took away says nothing about the next one, and a lack of capacity nothing about other offerings. The end comes first: a
	// crash between the two loses the record of one failure. One without an answer may be done, and then there is no further look.
	err := c.config.Ender.Begin(ctx, claim, reason)
	if err != nil && !leadership.Unanswered(err) || reason == instanceTerminated || ec2error.OfferingsFailed(reason) {
		return err
	}
	return errors.Join(err, c.config.Health.DidNotJoin(ctx, claim, reason, message))
}

// Unjoined returns a function that ends a claim whose instance ended before its node joined, if EC2 says that the account, the EC2NodeClass or the
// offering is at fault, and that reports whether it did. Its context is an effect's.
func Unjoined(c *Controller) func(ctx context.Context, claim *karpv1.NodeClaim) (bool, error) {
	return func(ctx context.Context, claim *karpv1.NodeClaim) (bool, error) {
		id := index.InstanceID(claim.Status.ProviderID)
		found, err := c.config.Instances.Instances(ctx, cloud.Selector{IDs: []string{id}})
		if err != nil || len(found) != 1 || !over(found[0].State) {
			return false, err
		}
		reason, message := ended(id, found[0].State, found[0].StateReason)
		if reason == instanceTerminated {
			return false, nil
		}
		return true, c.end(ctx, claim, reason, message)
	}
}

// createNode creates the Node once EC2 shows the instance: a cloud controller deletes Nodes whose instance it cannot find.
func (c *Controller) createNode(ctx context.Context, claim *karpv1.NodeClaim) error {
	id := index.InstanceID(claim.Status.ProviderID)
	instances, err := c.config.Instances.Instances(ctx, cloud.Selector{IDs: []string{id}})
	if err != nil {
		return err
	}
	if len(instances) == 0 {
		return fmt.Errorf("instance %s of NodeClaim %s is not visible yet", id, claim.Name)
	}
	if s := instances[0].State; over(s) && wakes(claim, s, time.Now()) {
		return fmt.Errorf("instance %s of NodeClaim %s is still shown as %s after its start", id, claim.Name, s)
	} else if over(s) {
		reason, message := ended(id, s, instances[0].StateReason)
		return c.end(ctx, claim, reason, message)
	}
	want := node.New(claim, instances[0])
	if err := register(ctx, c.config.Client, claim, want); err != nil {
		return err
	}
	created := c.config.Images(ctx, claim, want)
	err = c.config.Client.Create(ctx, want)
	if apierrors.IsAlreadyExists(err) {
		return c.removeStale(ctx, want)
	}
	if err != nil {
		return fmt.Errorf("creating Node %s: %w", want.Name, err)
	}
	created()
	klog.FromContext(ctx).V(2).Info("Created Node", "node", want.Name, "nodeClaim", klog.KObj(claim), "instanceID", id)
	return c.leases.renew(ctx, claim.UID, want)
}

// removeStale deletes a Node of the same name that belongs to another instance: addresses are reused, Nodes are not.
func (c *Controller) removeStale(ctx context.Context, want *corev1.Node) error {
	have := &corev1.Node{}
	if err := c.config.Client.Get(ctx, types.NamespacedName{Name: want.Name}, have); err != nil {
		return client.IgnoreNotFound(err)
	}
	if have.Spec.ProviderID == "" || have.Spec.ProviderID == want.Spec.ProviderID {
		return nil // The kubelet created it first; the next round adopts its Node.
	}
	klog.FromContext(ctx).Info("Deleting a stale Node of the same name", "node", have.Name, "providerID", have.Spec.ProviderID)
	if err := c.config.Client.Delete(ctx, have, client.Preconditions{UID: &have.UID}); client.IgnoreNotFound(err) != nil {
		return err
	}
	return fmt.Errorf("node %s belonged to %s: creating it again", have.Name, have.Spec.ProviderID)
}

// adopt completes a Node that the kubelet created or changed, and removes the placeholder if the kubelet used another name.
func (c *Controller) adopt(ctx context.Context, o Observed, d Decision) error {
	if d.RemovePlaceholder {
		if err := c.removePlaceholder(ctx, o); err != nil {
			return err
		}
	}
	if registeredNode(o.Node) {
		return nil
	}
	c.guarded(ctx, o)
	ours := cloud.Instance{PrivateDNSName: o.Node.Name, Zone: o.Claim.Labels[corev1.LabelTopologyZone], InstanceType: o.Claim.Labels[corev1.LabelInstanceTypeStable]}
	want := node.New(o.Claim, ours)
	want.Spec.ProviderID = o.Claim.Status.ProviderID
	patched, changed := node.Complete(o.Node, want, o.Claim)
	if !changed {
		return nil
	}
	return c.patch(ctx, o.Node, patched)
}

// guarded reports, in Karpenter's words, a Node that its kubelet created without a taint that keeps pods away until the Node has those of its
// NodeClaim. The Nodes that the launcher creates have all of them from the start.
func (c *Controller) guarded(ctx context.Context, o Observed) {
	if conditions.Posted(o.Node) == nil || hasTaint(o.Node, catalog.StartingTaintKey) || hasTaint(o.Node, karpv1.UnregisteredTaintKey) {
		return
	}
	klog.FromContext(ctx).Info("node claim registration error: missing taint prevents registration-related race conditions on Karpenter-managed nodes",
		"nodeClaim", klog.KObj(o.Claim), "node", o.Node.Name, "taint", karpv1.UnregisteredTaintKey)
	c.config.KarpenterEvents.Eventf(o.Claim, corev1.EventTypeWarning, "UnregisteredTaintMissing",
		"Missing %s taint which prevents registration related race conditions on Karpenter-managed nodes", karpv1.UnregisteredTaintKey)
}

func (c *Controller) patch(ctx context.Context, have, want *corev1.Node) error {
	if err := node.Patch(ctx, c.config.Client, have, want); err != nil {
		return err
	}
	want.DeepCopyInto(have)
	return nil
}

// bind binds the pods that are due and returns when to look again. A failed binding blocks nothing: it is retried a few times and then left
// to the scheduler.
func (c *Controller) bind(ctx context.Context, o Observed, d Decision) time.Duration {
	for _, s := range o.Slots {
		if s.Pod != nil && d.Refused[s.Pod.UID] != "" {
			c.leave(ctx, o, s.Pod, d.Refused[s.Pod.UID])
		}
	}
	if len(d.Bind) == 0 {
		return d.After
	}
	after := time.Millisecond // The taint is removed as soon as the bindings are answered: look again at once.
	if !o.NoDeletionCosts {
		c.costs.set(ctx, o.Node, d.Bind)
	}
	for i, err := range c.config.Binder.All(ctx, d.Bind) {
		b := d.Bind[i]
		switch {
		case err == nil:
			c.memory.answer(o.Claim.UID, b.Pod.UID)
			c.bound(o, b, time.Now())
		case c.memory.failed(o.Claim.UID, b.Pod.UID) >= bindTries && ctx.Err() == nil:
			c.leave(ctx, o, b.Pod, err.Error())
		default:
			klog.FromContext(ctx).V(2).Info("Binding failed, trying again", "pod", klog.KObj(b.Pod), "node", b.Node, "err", err)
			after = bindAgain
		}
	}
	return after
}

// leave leaves a promised pod to the scheduler.
func (c *Controller) leave(ctx context.Context, o Observed, pod *corev1.Pod, reason string) {
	c.memory.leave(o.Claim.UID, pod.UID)
	c.metrics.refused.Inc()
	klog.FromContext(ctx).Info("Promised pod is left to the scheduler", "pod", klog.KObj(pod), "node", o.Node.Name, "reason", reason)
	c.config.Events.Eventf(pod, corev1.EventTypeWarning, "NotPreBound", "Left to the scheduler: %s", reason)
}

// mark writes what the decision makes of the Node, in one request. A node that is registered gets finalizer, owner and label, one that has started
// loses the startup taint, one that is initialized gets the label.
func (c *Controller) mark(ctx context.Context, o Observed, d Decision) error {
	if !d.Register && !d.Untaint && !d.Initialize && !d.Uncordon {
		return nil
	}
	want := o.Node.DeepCopy()
	if d.Register {
		want = node.Registered(want, o.Claim)
	}
	if d.Untaint {
		want, _ = node.Started(want, catalog.StartingTaintKey)
	}
	if d.Uncordon {
		want.Spec.Unschedulable = false
	}
	if d.Initialize {
		metav1.SetMetaDataLabel(&want.ObjectMeta, karpv1.NodeInitializedLabelKey, "true")
	}
	if equality.Semantic.DeepEqual(o.Node, want) {
		return nil // An earlier round wrote it, and was interrupted.
	}
	return c.patch(ctx, o.Node, want)
}

// held leaves out of the decision a reason for which the node is not initialized that may be another in a moment: a node that starts passes
// through several within seconds, each of which would be written. It returns when to look again; 0 if nothing is left out.
func (c *Controller) held(o Observed, d *Decision) time.Duration {
	since := c.memory.waits(o.Claim.UID, d.Waiting+d.Message, o.Now)
	have := o.Claim.StatusConditions().Get(karpv1.ConditionTypeInitialized)
	left := reasonAfter - o.Now.Sub(since)
	if d.Waiting == "" || d.Register || left <= 0 || !have.IsUnknown() || have.Reason == d.Waiting && have.Message == d.Message {
		return 0
	}
	d.Waiting, d.Message = "", ""
	return left
}

// condition writes the decision into the claim's status.
func (c *Controller) condition(ctx context.Context, o Observed, d Decision) error {
	if d.Register {
		c.memory.registering(o.Claim.UID)
	}
	changed, err := c.writeConditions(ctx, o, d)
	if apierrors.IsConflict(err) {
		// The launcher's other controllers write the same status. What they wrote is read at once, and what is decided here holds still.
		if now := (&karpv1.NodeClaim{}); c.config.Client.Get(ctx, client.ObjectKeyFromObject(o.Claim), now) == nil && now.UID == o.Claim.UID && now.DeletionTimestamp.IsZero() {
			now.DeepCopyInto(o.Claim)
			changed, err = c.writeConditions(ctx, o, d)
		}
	}
	if err != nil {
		return fmt.Errorf("writing status of NodeClaim %s: %w", o.Claim.Name, err)
	}
	// Where the answer to the write is lost, a later round finds it done.
	if o.Node != nil && conditions.ClaimIs(o.Claim, karpv1.ConditionTypeRegistered) {
		err = joined(ctx, c, o.Claim)
	}
	if changed && d.Initialize {
		c.metrics.joined(o)
		c.memory.initialized(o.Claim.UID, o.Claim.Labels[karpv1.NodePoolLabelKey])
		asKarpenter(ctx, o.Claim).Info("initialized nodeclaim", "nodeClaim", klog.KObj(o.Claim), "node", o.Node.Name, "allocatable", o.Node.Status.Allocatable)
	}
	return err
}

// joined reports to Health that the node of a claim is registered, if this process wrote it: once, and again where that fails.
func joined(ctx context.Context, c *Controller, claim *karpv1.NodeClaim) error {
	if !c.memory.isRegistering(claim.UID) {
		return nil
	}
	if err := c.config.Health.Joined(ctx, claim); err != nil {
		return err
	}
	c.memory.registered(claim.UID)
	asKarpenter(ctx, claim).Info("registered nodeclaim", "nodeClaim", klog.KObj(claim), "node", claim.Status.NodeName)
	return nil
}

// writeConditions writes the decision over the version of the claim that was read, and returns whether there was something to write.
func (c *Controller) writeConditions(ctx context.Context, o Observed, d Decision) (changed bool, err error) {
	before := o.Claim.DeepCopy()
	leftOut, lacking := setConditions(o, d)
	c.leftOut(ctx, o, leftOut)
	if equality.Semantic.DeepEqual(before.Status, o.Claim.Status) {
		return false, nil
	}
	err = c.config.Client.Status().Patch(ctx, o.Claim, node.ClaimStatus(before))
	if err == nil {
		consistency.Report(ctx, c.config.KarpenterEvents, o.Claim, lacking)
	}
	return true, err
}

// asKarpenter returns a logger with the fields of Karpenter's log lines besides ours: alerts match on them (its
// pkg/controllers/nodeclaim/lifecycle/controller.go). NodeClaim is controller-runtime's field.
func asKarpenter(ctx context.Context, claim *karpv1.NodeClaim) klog.Logger {
	return klog.FromContext(ctx).WithValues("Node", klog.KRef("", claim.Status.NodeName), "provider-id", claim.Status.ProviderID)
}

// leftOut reports that a kubelet reports more resources than its NodeClaim records.
func (c *Controller) leftOut(ctx context.Context, o Observed, n int) {
	if n == 0 {
		return
	}
	klog.FromContext(ctx).Info("Resources of a node are not recorded", "nodeClaim", klog.KObj(o.Claim), "node", o.Node.Name, "resources", n)
	c.config.Events.Eventf(o.Claim, corev1.EventTypeWarning, "ResourcesNotRecorded",
		"Left out of status: %s of node %s, by an invalid name or quantity, or beyond %d", catalog.CountText(n, "resource"), o.Node.Name, node.MaxResources)
}

// setConditions writes a decision into the claim's conditions, with Karpenter's reasons. It returns how many of the node's resources it
// left out, and which the node lacks of what was planned.
func setConditions(o Observed, d Decision) (leftOut int, lacking []string) {
	set := o.Claim.StatusConditions()
	if record.StandbyOf(o.Claim).State == record.StandbyAwake && set.Get(record.ConditionStandby) != nil {
		set.SetFalse(record.ConditionStandby, record.ReasonWoken, "A pod was promised the node")
	}
	switch {
	case d.Register:
		set.SetTrue(karpv1.ConditionTypeRegistered)
		o.Claim.Status.NodeName = o.Node.Name
	case d.Unregistered == multipleNodes:
		set.SetFalse(karpv1.ConditionTypeRegistered, d.Unregistered, d.Message)
	case d.Unregistered != "":
		set.SetUnknownWithReason(karpv1.ConditionTypeRegistered, d.Unregistered, record.NotRegistered)
	}
	switch {
	case d.Initialize:
		set.SetTrue(karpv1.ConditionTypeInitialized)
		lacking = consistency.Lacking(o.Claim, o.Node) // Before the status says what the node has.
		consistency.SetCondition(o.Claim, lacking)
		planned, status := o.Claim.Status.Allocatable, &o.Claim.Status
		if disruption.Occupant(o.OnNode) != nil {
			status.LastPodEventTime = metav1.NewTime(o.Now) // Package reclaim goes on from here.
		}
		status.Capacity, leftOut = node.Reported(o.Node.Status.Capacity, planned)
		status.Allocatable, _ = node.Reported(o.Node.Status.Allocatable, planned)
	case d.Waiting != "":
		set.SetUnknownWithReason(karpv1.ConditionTypeInitialized, d.Waiting, d.Message)
	}
	return leftOut, lacking
}
