package terminate

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/finalizer"
	"github.com/slipway-k8s/slipway/launcher/leadership"
	nodeobj "github.com/slipway-k8s/slipway/launcher/node"
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

// Uncordon removes the taint that Cordon set on behalf of by, unless the Node is being deleted. An empty by stands for a taint that Cordon did not set,
// such as Karpenter's. ctx is an effect's.
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

// patchNode changes a Node; a deleted Node needs no change. It reads the cache, and the API server where that shows nothing to change, or a Node that
// has changed since.
func (t *Terminator) patchNode(ctx context.Context, name string, change func(*corev1.Node)) error {
	changed := false
	patch := func(from client.Reader) error {
		have := &corev1.Node{}
		if err := from.Get(ctx, client.ObjectKey{Name: name}, have); err != nil {
			return client.IgnoreNotFound(err)
		}
		want := have.DeepCopy()
		if change(want); same(have, want) {
			return nil
		}
		changed = true
		klog.FromContext(ctx).V(2).Info("Changing node that terminates", "node", klog.KObj(want), "cordoned", Cordoned(want))
		return client.IgnoreNotFound(nodeobj.Patch(ctx, t.config.Client, have, want))
	}
	err := patch(t.config.Client)
	if apierrors.IsConflict(err) || err == nil && !changed {
		err = leadership.RetryOnConflict(func() error { return patch(t.config.Reader) })
	}
	if err != nil {
		return fmt.Errorf("change Node %s: %w", name, err)
	}
	return nil
}
