package node

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Difference is the patch from the Node as it was read to the one as it should be, of the very Node, by its UID. While a node
// boots, others write to its Node many times a second: only where taints differ, a list that is replaced as a whole, is it bound
// to the version that was read.
func Difference(have, want *corev1.Node) client.Patch {
	from := have.DeepCopy()
	if !equality.Semantic.DeepEqual(have.Spec.Taints, want.Spec.Taints) {
		return client.MergeFromWithOptions(from, client.MergeFromWithOptimisticLock{})
	}
	from.UID = ""
	return client.StrategicMergeFrom(from)
}
