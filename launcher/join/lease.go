package join

import (
	"context"
	"encoding/json"
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

// renewal is what the launcher wrote of a Lease last.
type renewal struct {
	// at is when; zero if this process did not.
	at time.Time
	// version is the Lease's resourceVersion after that; empty if it has to be read.
	version string
	// kubelets means that the kubelet created the Lease: the launcher may not write it.
	kubelets bool
}

// leases writes the Leases of nodes that boot.
type leases struct {
	client client.Client
	reader client.Reader
	memory *memory
}

// renew renews a booting node's Lease in the name of its kubelet: the node lifecycle controller considers a Node without status healthy as
// long as its Lease is renewed (pkg/controller/nodelifecycle/node_lifecycle_controller.go). The kubelet adopts the Lease when it starts, with
// its labels; to give up the node, the launcher stops renewing.
func (l leases) renew(ctx context.Context, claim types.UID, of *corev1.Node) error {
	last := l.memory.renewal(claim)
	if last.kubelets {
		return nil
	}
	now := metav1.NewMicroTime(time.Now())
	lease, err := l.write(ctx, of, last.version, now)
	if apierrors.IsConflict(err) && last.version != "" {
		// The kubelet has adopted it, another leader renewed it, or the answer to the last renewal was lost. The first ends the renewals with its
		// first status.
		lease, err = l.write(ctx, of, "", now)
	}
	switch {
	case err == nil && lease == nil:
		l.memory.renewed(claim, renewal{at: now.Time, kubelets: true})
		return nil
	case apierrors.IsConflict(err):
		l.memory.renewed(claim, renewal{at: now.Time}) // It was written at this moment: the next renewal reads it.
		return nil
	case apierrors.IsNotFound(err):
		l.memory.renewed(claim, renewal{}) // It was deleted since: the next round creates it again.
	case err == nil:
		l.memory.renewed(claim, renewal{at: now.Time, version: lease.ResourceVersion})
		return nil
	}
	return fmt.Errorf("renewing the Lease of Node %s: %w", of.Name, err)
}

// write creates the Lease where no version of it is known, and writes the time of renewal over the one there is. It returns no Lease if the
// kubelet has written it.
func (l leases) write(ctx context.Context, of *corev1.Node, version string, now metav1.MicroTime) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: of.Name}}
	if version == "" {
		lease.Labels = node.Marks(of.Labels)
		lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: of.Name, UID: of.UID}}
		lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &of.Name, LeaseDurationSeconds: new(int32(leaseSeconds)), RenewTime: &now}
		if err := l.client.Create(ctx, lease); !apierrors.IsAlreadyExists(err) {
			return lease, err
		}
		// The kubelet was first, or this launcher before it restarted.
		have := &coordinationv1.Lease{}
		if err := l.reader.Get(ctx, client.ObjectKeyFromObject(lease), have); err != nil {
			return nil, err
		}
		if !node.Marked(have.Labels) {
			return nil, nil
		}
		lease, version = have, have.ResourceVersion
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": version}, "spec": map[string]any{"renewTime": now},
	})
	if err != nil {
		return nil, err
	}
	return lease, l.client.Patch(ctx, lease, client.RawPatch(types.MergePatchType, patch))
}
