package node

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Difference returns the patch from the Node as it was read to the wanted one, for this UID only. It has no status. While a node boots, others write to
// its Node many times a second: the patch requires the version that was read only if taints differ, because they are a list that is replaced as
// a whole. have must not be changed before the patch is written.
func Difference(have, want *corev1.Node) client.Patch {
	from := withoutStatus(have)
	if !equality.Semantic.DeepEqual(have.Spec.Taints, want.Spec.Taints) {
		return partial[*corev1.Node]{client.MergeFromWithOptions(from, client.MergeFromWithOptimisticLock{}), withoutStatus}
	}
	from.UID = ""
	return partial[*corev1.Node]{client.StrategicMergeFrom(from), withoutStatus}
}

// ClaimMetadata returns the patch from a NodeClaim as it was read to what it is patched to, for this version only, of its metadata. have must not be
// changed before the patch is written.
func ClaimMetadata(have *karpv1.NodeClaim) client.Patch { return ofClaim(have, metadataOf) }

// ClaimStatus is the same of its status.
func ClaimStatus(have *karpv1.NodeClaim) client.Patch { return ofClaim(have, statusOf) }

func ofClaim(have *karpv1.NodeClaim, part func(claim *karpv1.NodeClaim) *karpv1.NodeClaim) client.Patch {
	return partial[*karpv1.NodeClaim]{client.MergeFromWithOptions(part(have), client.MergeFromWithOptimisticLock{}), part}
}

// partial is a patch that compares a part of two objects: to turn them into JSON as a whole, and that into maps, is a twelfth of what launching a node
// allocates.
type partial[T client.Object] struct {
	client.Patch

	part func(object T) T
}

// Data implements client.Patch.
func (p partial[T]) Data(obj client.Object) ([]byte, error) {
	object, ok := obj.(T)
	if !ok {
		return nil, fmt.Errorf("node: a patch of %T is for no %T", *new(T), obj)
	}
	return p.Patch.Data(p.part(object))
}

func withoutStatus(n *corev1.Node) *corev1.Node {
	return &corev1.Node{TypeMeta: n.TypeMeta, ObjectMeta: n.ObjectMeta, Spec: n.Spec}
}

func metadataOf(c *karpv1.NodeClaim) *karpv1.NodeClaim {
	return &karpv1.NodeClaim{TypeMeta: c.TypeMeta, ObjectMeta: c.ObjectMeta}
}

func statusOf(c *karpv1.NodeClaim) *karpv1.NodeClaim {
	return &karpv1.NodeClaim{TypeMeta: c.TypeMeta, ObjectMeta: metav1.ObjectMeta{ResourceVersion: c.ResourceVersion}, Status: c.Status}
}
