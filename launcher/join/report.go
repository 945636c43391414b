package join

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/announce"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// report writes the plan of bindings to the NodeClaim if it changed, for `slipway explain pod`, and records it as an Event. A plan that the
// API server refuses is reported and left out: the node joins without the record. Other errors are returned, and the plan is written again.
func (c *Controller) report(ctx context.Context, o Observed, d Decision) error {
	text := record.FormatBindings(d.Plan)
	if len(d.Plan) == 0 || o.Claim.Annotations[catalog.BindingsAnnotation] == text {
		return nil
	}
	before := o.Claim.DeepCopy()
	metav1.SetMetaDataAnnotation(&o.Claim.ObjectMeta, catalog.BindingsAnnotation, text)
	// Without an optimistic lock: only this function writes the annotation, and the patch contains nothing else.
	err := c.config.Client.Patch(ctx, o.Claim, client.MergeFrom(before))
	if refused(err) {
		before.DeepCopyInto(o.Claim)
		klog.FromContext(ctx).Error(err, "Bindings of a NodeClaim are not recorded", "nodeClaim", klog.KObj(o.Claim), "bytes", len(text))
		c.config.Events.Eventf(o.Claim, corev1.EventTypeWarning, "BindingsNotRecorded", "The API server refuses annotation %s of %d bytes: %v",
			catalog.BindingsAnnotation, len(text), err)
		return nil
	}
	if client.IgnoreNotFound(err) != nil {
		before.DeepCopyInto(o.Claim)
		return fmt.Errorf("writing bindings of NodeClaim %s: %w", o.Claim.Name, err)
	}
	recorded(c.config.Events, o.Claim, d.Plan)
	return nil
}

func recorded(events announce.EventRecorder, claim *karpv1.NodeClaim, plan []record.Bindings) {
	events.Eventf(claim, corev1.EventTypeNormal, "BindingPlanned", "%s", summary(plan))
}

// Prepare puts on a NodeClaim whose launch is about to be written when its promised pods are bound, which spares a write. The caller calls
// written once that is done. What is not known yet, or would not fit, is left to the reconciler.
func (c *Controller) Prepare(ctx context.Context, claim *karpv1.NodeClaim) (written func()) {
	pool := claim.Labels[karpv1.NodePoolLabelKey]
	o := Observed{Claim: claim, Node: &corev1.Node{}, Settings: c.config.Settings, NetworkAtStart: c.memory.networkAtStart(pool)}
	var err error
	if o.Slots, err = c.slots(ctx, claim); err == nil {
		err = c.poolOf(ctx, pool, &o)
	}
	bindings := plan(o)
	annotations := map[string]string{}
	maps.Copy(annotations, claim.Annotations)
	annotations[catalog.BindingsAnnotation] = record.FormatBindings(bindings)
	if err != nil || len(bindings) == 0 || validation.ValidateAnnotationsSize(annotations) != nil {
		return func() {}
	}
	claim.Annotations = annotations
	return func() { recorded(c.config.Events, claim, bindings) }
}

// refused reports whether the API server will refuse the same write again.
func refused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err)
}

// removePlaceholder deletes the Node that the launcher created if the kubelet has joined under another name, and first the pods that were
// bound to it. They never ran, and their controllers would otherwise notice only after a minute.
func (c *Controller) removePlaceholder(ctx context.Context, o Observed) error {
	logger := klog.FromContext(ctx).WithValues("node", o.Node.Name, "placeholder", o.Placeholder.Name)
	var pods corev1.PodList
	if err := c.config.Client.List(ctx, &pods, client.MatchingFields{index.PodNodeName: o.Placeholder.Name}); err != nil {
		return err
	}
	message := fmt.Sprintf("the kubelet registered as %s, while EC2 calls the instance %s", o.Node.Name, o.Placeholder.Name)
	var errs []error
	for i := range pods.Items {
		errs = append(errs, c.discard(ctx, &pods.Items[i], "NodeName", message))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	err := c.config.Client.Delete(ctx, o.Placeholder, client.Preconditions{UID: &o.Placeholder.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting placeholder Node %s: %w", o.Placeholder.Name, err)
	}
	logger.Info("Deleted a Node whose kubelet joined under another name", "nodeClaim", klog.KObj(o.Claim), "pods", len(pods.Items))
	if len(pods.Items) == 0 {
		return nil
	}
	return c.config.Health.Rejected(ctx, o.Claim, "NodeName", message)
}

// discard ends a pod that was bound and never ran, so that its controller creates another at once.
func (c *Controller) discard(ctx context.Context, pod *corev1.Pod, reason, message string) error {
	if pod.Status.Phase != corev1.PodFailed {
		before := pod.DeepCopy()
		pod.Status.Phase, pod.Status.Reason, pod.Status.Message = corev1.PodFailed, reason, message
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, Message: "slipway: " + message, LastTransitionTime: metav1.Now(),
		})
		err := c.config.Client.Status().Patch(ctx, pod, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if err != nil {
			return client.IgnoreNotFound(err)
		}
	}
	c.config.Events.Eventf(pod, corev1.EventTypeWarning, "PreBoundPodDiscarded", "It never ran and is replaced: %s", message)
	err := c.config.Client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}
