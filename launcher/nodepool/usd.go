package nodepool

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/window"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// USD returns the function that says what a NodeClaim counts against catalog.LimitUSD: its instance at the prices of today, or before it has one the
// most that EC2 may choose. An instance whose offering has no price counts with what it was planned at.
func USD(prices catalog.Prices) func(*karpv1.NodeClaim) int64 {
	return func(claim *karpv1.NodeClaim) int64 {
		micro, known := int64(0), false
		if claim.Status.ProviderID != "" {
			micro, known = prices.At(claim.Labels[corev1.LabelInstanceTypeStable], claim.Labels[corev1.LabelTopologyZone], claim.Labels[karpv1.CapacityTypeLabelKey])
		} else if reqs, err := record.Requirements(claim); err == nil {
			micro = prices.Most(record.InstanceTypes(claim), reqs)
			known = micro > 0
		}
		if !known {
			cost, _ := catalog.ParseCost(claim.Annotations[catalog.CostAnnotation])
			micro = catalog.MicroUSD(cost.Total() - cost.Interruptions)
		}
		return micro
	}
}

// usd returns what the pool's NodeClaims count against catalog.LimitUSD; nil if neither the pool nor a window of it has that limit.
func (c *Controller) usd(ctx context.Context, pool *karpv1.NodePool, types []catalog.InstanceType) func(*karpv1.NodeClaim) int64 {
	if !limitsUSD(pool) {
		return nil
	}
	if own, overlaid := c.overlaid(ctx, pool.Name); overlaid {
		types = own
	}
	declared, _ := catalog.DeclaredCost(pool.Annotations) // SetConditions reports the error.
	prices := catalog.Prices{Types: make(map[string]catalog.InstanceType, len(types)), Declared: declared}
	for _, t := range types {
		prices.Types[t.Name] = t
	}
	return USD(prices)
}

func (c *Controller) overlaid(ctx context.Context, pool string) ([]catalog.InstanceType, bool) {
	if c.config.Overlaid == nil {
		return nil, false
	}
	return c.config.Overlaid(ctx, pool)
}

// limitsUSD reports whether a limit in USD ever holds for the pool.
func limitsUSD(pool *karpv1.NodePool) bool {
	if _, limited := pool.Spec.Limits[catalog.LimitUSD]; limited {
		return true
	}
	windows, _ := window.Read(pool.Annotations) // A condition says what is wrong with others.
	for _, w := range windows {
		if _, limited := w.Limits[catalog.LimitUSD]; limited {
			return true
		}
	}
	return false
}
