package server

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/window"
	"github.com/slipway-k8s/slipway/launcher/health"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// gated returns the limits of a NodePool under its gate, and why it may not launch at all, or "". If one node at a time is tried, the limit
// is one more than the nodes that are not booting.
func gated(pool *karpv1.NodePool, claims []*karpv1.NodeClaim, g health.Gate) (corev1.ResourceList, string) {
	limits := window.Limits(pool.Annotations, corev1.ResourceList(pool.Spec.Limits), time.Now())
	switch {
	case g.Held:
		return limits, g.Why
	case !g.OneAtATime:
		return limits, ""
	}
	booting := 0
	for _, c := range claims {
		// An instance that is stopped for a standby buffer says nothing about nodes that join.
		if c.DeletionTimestamp.IsZero() && !registered(c) && !record.StandbyOf(c).Off() {
			booting++
		}
	}
	one := *resource.NewQuantity(int64(len(claims)-booting)+1, resource.DecimalSI)
	if have, ok := limits[nodesLimit]; !ok || one.Cmp(have) < 0 {
		limits = limits.DeepCopy()
		if limits == nil {
			limits = corev1.ResourceList{}
		}
		limits[nodesLimit] = one
	}
	if booting > 0 {
		return limits, g.Why + ": one is on its way"
	}
	return limits, ""
}

// registered reads the condition without changing the claim, which is shared with the cache.
func registered(claim *karpv1.NodeClaim) bool {
	for _, c := range claim.Status.Conditions {
		if c.Type == karpv1.ConditionTypeRegistered {
			return c.Status == "True"
		}
	}
	return false
}
