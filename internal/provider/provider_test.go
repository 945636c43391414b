package provider_test

import (
	"testing"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/provider"
)

func TestOthers(t *testing.T) {
	for name, tc := range map[string]struct {
		ref         *karpv1.NodeClassReference
		claim, pool bool
	}{
		"no class":         {},
		"only a name":      {&karpv1.NodeClassReference{Name: "default"}, false, false},
		"slipway's":        {&karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClass", Name: "default"}, false, false},
		"a mistyped kind":  {&karpv1.NodeClassReference{Group: "karpenter.k8s.aws", Kind: "EC2NodeClas", Name: "default"}, false, false},
		"a mistyped group": {&karpv1.NodeClassReference{Group: "karpenter.k8s.aw", Kind: "EC2NodeClass", Name: "default"}, true, false},
		"EKS Auto Mode":    {&karpv1.NodeClassReference{Group: "eks.amazonaws.com", Kind: "NodeClass", Name: "default"}, true, true},
	} {
		claim, pool := &karpv1.NodeClaim{}, &karpv1.NodePool{}
		claim.Spec.NodeClassRef, pool.Spec.Template.Spec.NodeClassRef = tc.ref, tc.ref
		if got := provider.OthersClaim(claim); got != tc.claim {
			t.Errorf("%s: the NodeClaim is another's: %t", name, got)
		}
		if got := provider.OthersPool(pool); got != tc.pool {
			t.Errorf("%s: the NodePool is another's: %t", name, got)
		}
	}
}
