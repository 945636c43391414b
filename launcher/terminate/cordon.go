package terminate

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/finalizer"
	"github.com/slipway-k8s/slipway/launcher/leadership"
)

// CordonedByAnnotation on a Node records which component set the disruption taint, so that no other removes it.
const CordonedByAnnotation = "slipway.dev/cordoned-by"

// Cordon makes a Node unschedulable on behalf of by, with the taint karpenter.sh/disrupted:NoSchedule, unless it has the taint. The Node may
// be deleted already. ctx is an effect's.
func (t *Terminator) Cordon(ctx context.Context, nodeName, by string) error {
	tainted := false
	err := t.patchNode(ctx, nodeName, func(node *corev1.Node) {
		if tainted = !Cordoned(node); !tainted {
			return
		}
		taint(node)
		if node.Annotations == nil {
			node.Annotations = map[string]string{}
		}
		node.Annotations[CordonedByAnnotation] = by
	})
	if err == nil && tainted {
		klog.FromContext(ctx).Info("tainted node", "node", nodeName, "taint.Key", karpv1.DisruptedTaintKey, "taint.Effect", corev1.TaintEffectNoSchedule)
	}
	return err
}

// Uncordon removes the taint that Cordon set on behalf of by, unless the Node is being deleted. ctx is an effect's.
func (t *Terminator) Uncordon(ctx context.Context, nodeName, by string) error {
	return t.patchNode(ctx, nodeName, func(node *corev1.Node) {
		if node.Annotations[CordonedByAnnotation] != by || node.DeletionTimestamp != nil {
			return
		}
		delete(node.Annotations, CordonedByAnnotation)
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpv1.DisruptedTaintKey })
	})
}

// Cordoned reports whether the Node has the disruption taint.
func Cordoned(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == karpv1.DisruptedTaintKey && t.Effect == corev1.TaintEffectNoSchedule
	})
}

func taint(node *corev1.Node) {
	if Cordoned(node) {
		return
	}
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == karpv1.DisruptedTaintKey })
	node.Spec.Taints = append(node.Spec.Taints, karpv1.DisruptedNoScheduleTaint)
}

// leave marks a Node that is terminated: no new pods, no load balancer traffic, and our finalizer, so that it stays until its instance has
// terminated.
func leave(node *corev1.Node, claim *karpv1.NodeClaim) {
	taint(node)
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	node.Labels[corev1.LabelNodeExcludeBalancers] = "karpenter"
	if node.DeletionTimestamp == nil {
		finalizer.GuardLike(node, claim)
	}
}

// leaves reports whether leave has nothing to do, according to the cache.
func leaves(node *corev1.Node, claim *karpv1.NodeClaim) bool {
	before := node.DeepCopy()
	leave(node, claim)
	return same(before, node)
}

// patchNode changes a Node in its current version; a deleted Node needs no change.
func (t *Terminator) patchNode(ctx context.Context, name string, change func(*corev1.Node)) error {
	err := leadership.RetryOnConflict(func() error {
		node := &corev1.Node{}
		if err := t.config.Reader.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
			return client.IgnoreNotFound(err)
		}
		before := node.DeepCopy()
		change(node)
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if same(before, node) {
			return nil
		}
		klog.FromContext(ctx).V(2).Info("Changing node that terminates", "node", klog.KObj(node), "cordoned", Cordoned(node))
		return client.IgnoreNotFound(t.config.Client.Patch(ctx, node, patch))
	})
	if err != nil {
		return fmt.Errorf("change Node %s: %w", name, err)
	}
	return nil
}
