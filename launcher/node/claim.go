package node

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// ClaimMetadata returns the patch from a NodeClaim as it was read to what it is patched to, for this version only, of its metadata. have must not be
// changed before the patch is written.
func ClaimMetadata(have *karpv1.NodeClaim) client.Patch { return ofClaim(have, metadataOf) }

// ClaimStatus is the same of its status.
func ClaimStatus(have *karpv1.NodeClaim) client.Patch { return ofClaim(have, statusOf) }

func ofClaim(have *karpv1.NodeClaim, part func(claim *karpv1.NodeClaim) *karpv1.NodeClaim) client.Patch {
	return partial{client.MergeFromWithOptions(part(have), client.MergeFromWithOptimisticLock{}), part}
}

// partial is a patch that compares a part of two NodeClaims: to turn them into JSON as a whole, and that into maps, is a twelfth of what launching a
// node allocates.
type partial struct {
	client.Patch

	part func(claim *karpv1.NodeClaim) *karpv1.NodeClaim
}

// Data implements client.Patch.
func (p partial) Data(obj client.Object) ([]byte, error) {
	claim, ok := obj.(*karpv1.NodeClaim)
	if !ok {
		return nil, fmt.Errorf("node: a patch of a NodeClaim is for no %T", obj)
	}
	return p.Patch.Data(p.part(claim))
}

func metadataOf(c *karpv1.NodeClaim) *karpv1.NodeClaim {
	return &karpv1.NodeClaim{TypeMeta: c.TypeMeta, ObjectMeta: c.ObjectMeta}
}

func statusOf(c *karpv1.NodeClaim) *karpv1.NodeClaim {
	return &karpv1.NodeClaim{TypeMeta: c.TypeMeta, ObjectMeta: metav1.ObjectMeta{ResourceVersion: c.ResourceVersion}, Status: c.Status}
}
