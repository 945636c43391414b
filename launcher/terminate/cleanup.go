package terminate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/finalizer"
	"github.com/slipway-k8s/slipway/launcher/index"
	nodeobj "github.com/slipway-k8s/slipway/launcher/node"
)

// claimTag is the EC2 tag that names an instance's NodeClaim.
const claimTag = "karpenter.sh/nodeclaim"

// leaseNamespace is the namespace of the kubelets' Leases.
const leaseNamespace = "kube-node-lease"

// instanceTerminated is the reason in the DisruptionTarget condition of pods whose instance terminated under them.
const instanceTerminated = "InstanceTerminated"

// failPods fails and deletes the pods that are still bound to nodes whose instance has terminated. Their controllers then
// need not wait for the pod garbage collector, which takes 40 seconds. A pod that may not be deleted is left to it.
func (t *Terminator) failPods(ctx context.Context, s *scope) (time.Duration, error) {
	// The list comes from the API server: a pod bound a moment ago is not in the cache, and would be lost with the Node.
	pods, err := podsOn(ctx, t.config.Reader, s.nodes)
	if err != nil {
		return 0, err
	}
	var errs []error
	for _, pod := range pods {
		if disruption.Terminal(pod) && !failedByUs(pod) {
			continue
		}
		err := t.failPod(ctx, pod)
		if rejected(err) {
			klog.FromContext(ctx).Error(err, "Left a pod to the pod garbage collector: its instance has terminated", "pod", klog.KObj(pod), "node", pod.Spec.NodeName)
			continue
		}
		errs = append(errs, err)
	}
	return 0, errors.Join(errs...)
}

// rejected reports whether the API server, or a webhook that it asks, rejects a request: repeating it does not help soon.
func rejected(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsInternalError(err)
}

// evictUnstarted evicts the pods that were bound to a node whose kubelet never joined. They never ran, so no budget protects
// them, and their controllers create others at once. The pods are deleted when the instance has terminated. A pod that a
// budget does protect has started after all, and waits for that.
func (t *Terminator) evictUnstarted(ctx context.Context, s *scope) (time.Duration, error) {
	pods, err := podsOn(ctx, t.config.Client, s.nodes)
	if err != nil {
		return 0, err
	}
	for _, pod := range pods {
		waits := pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodPending && disruption.Holds(pod, s.now)
		if !waits || disruption.OfDaemonSet(pod) || !t.evictor.backoff.due(pod.UID, s.now) {
			continue
		}
		// The instance is terminated whatever the result.
		if err := t.evictor.evict(ctx, s, pod, ""); err != nil {
			klog.FromContext(ctx).Error(err, "Evicting a pod of a node that never joined failed", "pod", klog.KObj(pod))
		}
	}
	return 0, nil
}

func (t *Terminator) failPod(ctx context.Context, pod *corev1.Pod) error {
	var err error
	if !failedByUs(pod) {
		before := pod.DeepCopy()
		pod.Status.Phase = corev1.PodFailed
		setCondition(&pod.Status, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: instanceTerminated,
			Message: "slipway: the instance of the pod's node was terminated", LastTransitionTime: metav1.Now(),
		})
		err = t.config.Client.Status().Patch(ctx, pod, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	}
	if err == nil {
		err = t.config.Client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("end pod %s/%s of a terminated instance: %w", pod.Namespace, pod.Name, err)
	}
	klog.FromContext(ctx).V(2).Info("Ended pod whose instance was terminated", "pod", klog.KObj(pod), "node", pod.Spec.NodeName)
	return nil
}

// failedByUs reports whether a crash occurred between failing the pod and deleting it.
func failedByUs(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Reason == instanceTerminated
	})
}

func setCondition(status *corev1.PodStatus, c corev1.PodCondition) {
	for i := range status.Conditions {
		if status.Conditions[i].Type == c.Type {
			status.Conditions[i] = c
			return
		}
	}
	status.Conditions = append(status.Conditions, c)
}

// releaseNode deletes a Node's Lease, deletes the Node if it is not deleted yet, and removes our finalizer from it.
func (t *Terminator) releaseNode(ctx context.Context, node *corev1.Node) error {
	if node.DeletionTimestamp != nil && !finalizer.Guarded(node) && len(node.Finalizers) > 0 {
		return nil // It was released before, and the finalizers of others keep it.
	}
	// The Lease is deleted first: once the Node is deleted, no process would delete the Lease after a crash.
	if err := t.deleteLease(ctx, node); err != nil {
		return err
	}
	if node.DeletionTimestamp == nil {
		err := t.config.Client.Delete(ctx, node, client.Preconditions{UID: &node.UID})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting Node %s: %w", node.Name, err)
		}
	}
	if err := t.patchNode(ctx, node.Name, func(n *corev1.Node) {
		if n.UID == node.UID {
			finalizer.Release(n)
		}
	}); err != nil {
		return err
	}
	klog.FromContext(ctx).Info("deleted node", "node", klog.KObj(node))
	nodePool := node.Labels[karpv1.NodePoolLabelKey]
	t.metrics.nodes.WithLabelValues(nodePool, node.Labels[corev1.LabelTopologyZone]).Inc()
	t.metrics.lifetime.WithLabelValues(nodePool).Observe(time.Since(node.CreationTimestamp.Time).Seconds())
	if node.DeletionTimestamp != nil {
		t.metrics.nodeDuration.WithLabelValues(nodePool).Observe(time.Since(node.DeletionTimestamp.Time).Seconds())
	}
	return nil
}

// keptNode returns the first node that finalizers of others keep, and those finalizers.
func keptNode(nodes []*corev1.Node) (*corev1.Node, []string) {
	for _, node := range nodes {
		others := slices.DeleteFunc(slices.Clone(node.Finalizers), finalizer.Is)
		if len(others) > 0 {
			return node, others
		}
	}
	return nil, nil
}

// deleteLease deletes the Lease of a Node, unless it belongs to a newer Node of that name. A Lease that the kubelet wrote first has no label
// of slipway's: its owner reference deletes it.
func (t *Terminator) deleteLease(ctx context.Context, node *corev1.Node) error {
	lease := &coordinationv1.Lease{}
	err := t.config.Reader.Get(ctx, client.ObjectKey{Namespace: leaseNamespace, Name: node.Name}, lease)
	if err == nil && !nodeobj.Marked(lease.Labels) {
		return nil
	}
	if err == nil {
		for _, o := range lease.OwnerReferences {
			if o.Kind == "Node" && o.UID != node.UID {
				return nil
			}
		}
		err = t.config.Client.Delete(ctx, lease, client.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion})
	}
	// A conflict means that the kubelet renewed it at the last moment: its owner reference deletes it.
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting Lease of Node %s: %w", node.Name, err)
	}
	return nil
}

func instanceID(claim *karpv1.NodeClaim) string { return index.InstanceID(claim.Status.ProviderID) }

func pool(claim *karpv1.NodeClaim) string { return claim.Labels[karpv1.NodePoolLabelKey] }
