// Package provider decides by the class of a NodePool or a NodeClaim whether it is another provider's, such as one of EKS Auto Mode. It is pure.
package provider

import (
	"github.com/aws/karpenter-provider-aws/pkg/apis"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// kind is that of the classes which slipway launches for.
const kind = "EC2NodeClass"

// OthersClaim reports whether a NodeClaim is another provider's: slipway leaves it alone, as Karpenter does (pkg/utils/nodeclaim, IsManaged).
func OthersClaim(claim *karpv1.NodeClaim) bool { return others(claim.Spec.NodeClassRef) }

// OthersPool reports whether a NodePool is another provider's: slipway leaves it alone, as Karpenter does (pkg/utils/nodepool, IsManaged). One with an
// EC2NodeClass of a mistyped group is not: its condition names the field.
func OthersPool(pool *karpv1.NodePool) bool {
	ref := pool.Spec.Template.Spec.NodeClassRef
	return others(ref) && ref.Kind != kind
}

func others(ref *karpv1.NodeClassReference) bool {
	return ref != nil && ref.Group != "" && ref.Group != apis.Group
}
