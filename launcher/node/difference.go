package node

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Difference returns the patch from the Node as it was read to the wanted one, for this UID only. While a node boots, others write to its
// Node many times a second: the patch requires the version that was read only if taints differ, because they are a list that is replaced as
// a whole.
func Difference(have, want *corev1.Node) client.Patch {
	from := have.DeepCopy()
	if !equality.Semantic.DeepEqual(have.Spec.Taints, want.Spec.Taints) {
		return client.MergeFromWithOptions(from, client.MergeFromWithOptimisticLock{})
	}
	from.UID = ""
	return client.StrategicMergeFrom(from)
}
