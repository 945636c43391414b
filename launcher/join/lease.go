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

	"github.com/slipway-k8s/slipway/launcher/node"
)

// leaseSeconds is the kubelet's default nodeLeaseDurationSeconds (KubeletConfiguration v1beta1).
const leaseSeconds = 40

// renew renews a booting node's Lease in the name of its kubelet: the node lifecycle controller considers a Node without status healthy as
// long as its Lease is renewed (pkg/controller/nodelifecycle/node_lifecycle_controller.go). The kubelet adopts the Lease when it starts, with
// its labels; to give up the node, the launcher stops renewing.
func (c *Controller) renew(ctx context.Context, of *corev1.Node) error {
	lease := &coordinationv1.Lease{}
	err := c.config.Reader.Get(ctx, types.NamespacedName{Namespace: corev1.NamespaceNodeLease, Name: of.Name}, lease)
	now := metav1.NewMicroTime(time.Now())
	switch {
	case apierrors.IsNotFound(err):
		lease.Namespace, lease.Name = corev1.NamespaceNodeLease, of.Name
		lease.Labels = node.Marks(of.Labels)
		lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: of.Name, UID: of.UID}}
		lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &of.Name, LeaseDurationSeconds: new(int32(leaseSeconds)), RenewTime: &now}
		err = c.config.Client.Create(ctx, lease)
		if apierrors.IsAlreadyExists(err) {
			return nil // The kubelet wrote it first: from now on the Lease is its own.
		}
	case err == nil && !node.Marked(lease.Labels):
		return nil // The kubelet wrote it first.
	case err == nil:
		before := lease.DeepCopy()
		lease.Spec.RenewTime = &now
		err = c.config.Client.Patch(ctx, lease, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
		if apierrors.IsConflict(err) {
			return nil // The same holds for a Lease that was renewed at this moment.
		}
	}
	if err != nil {
		return fmt.Errorf("renewing the Lease of Node %s: %w", of.Name, err)
	}
	return nil
}
