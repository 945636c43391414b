package join

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// leaseSeconds is the kubelet's default nodeLeaseDurationSeconds (KubeletConfiguration v1beta1).
const leaseSeconds = 40

// renew keeps a booting node's Lease fresh, in the name of its kubelet: the node lifecycle controller takes a Node without
// status for healthy as long as its Lease is renewed (pkg/controller/nodelifecycle/node_lifecycle_controller.go). The kubelet
// adopts the Lease when it starts; to give the node up, the launcher stops renewing.
func (c *Controller) renew(ctx context.Context, node *corev1.Node) error {
	lease := &coordinationv1.Lease{}
	err := c.config.Reader.Get(ctx, types.NamespacedName{Namespace: corev1.NamespaceNodeLease, Name: node.Name}, lease)
	now := metav1.NewMicroTime(time.Now())
	switch {
	case apierrors.IsNotFound(err):
		lease.Namespace, lease.Name = corev1.NamespaceNodeLease, node.Name
		lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
		lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &node.Name, LeaseDurationSeconds: new(int32(leaseSeconds)), RenewTime: &now}
		err = c.config.Client.Create(ctx, lease)
		if apierrors.IsAlreadyExists(err) {
			return nil // The kubelet was faster: from now on the Lease is its own.
		}
	case err == nil:
		before := lease.DeepCopy()
		lease.Spec.RenewTime = &now
		err = c.config.Client.Patch(ctx, lease, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if apierrors.IsConflict(err) {
			return nil // So is one that somebody renewed in this moment.
		}
	}
	if err != nil {
		return fmt.Errorf("renewing the Lease of Node %s: %w", node.Name, err)
	}
	return nil
}
