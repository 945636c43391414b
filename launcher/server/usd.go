package server

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/nodepool"
)

// usdOf returns what NodeClaims of the NodePool count against catalog.LimitUSD; nil if it is not among the limits.
func (l lists) usdOf(pool *karpv1.NodePool, limits corev1.ResourceList) func(*karpv1.NodeClaim) int64 {
	if _, limited := limits[catalog.LimitUSD]; !limited {
		return nil
	}
	return nodepool.USD(pricesOf(pool, l.of(pool)))
}

func pricesOf(pool *karpv1.NodePool, o offered) catalog.Prices {
	declared, _ := catalog.DeclaredCost(pool.Annotations) // The NodePool's condition reports the error.
	return catalog.Prices{Types: o.byName, Declared: declared}
}

// limitsUSD reports whether the NodePool has a limit in USD.
func (b *budget) limitsUSD() bool {
	_, limited := b.limits[catalog.LimitUSD]
	return limited
}

// priced adds to the usage of a claim's node what it costs as the expected offering; where that is not known, the most that the claim allows.
func (b *budget) priced(usage corev1.ResourceList, c *api.Claim) corev1.ResourceList {
	if !b.limitsUSD() {
		return usage
	}
	e := c.GetExpected()
	micro, known := b.prices.At(e.GetInstanceType(), e.GetZone(), e.GetCapacityType())
	if !known {
		micro = b.mostUSD(c, c.GetInstanceTypes())
	}
	usage[catalog.LimitUSD] = catalog.USDQuantity(micro)
	return usage
}

// mostPriced adds the most that a node may cost which EC2 chooses among the instance types.
func (b *budget) mostPriced(usage corev1.ResourceList, c *api.Claim, names []string) corev1.ResourceList {
	if b.limitsUSD() {
		usage[catalog.LimitUSD] = catalog.USDQuantity(b.mostUSD(c, names))
	}
	return usage
}

func (b *budget) mostUSD(c *api.Claim, names []string) int64 {
	list := make([]catalog.Requirement, 0, len(c.GetRequirements()))
	for _, r := range c.GetRequirements() {
		list = append(list, catalog.Requirement{Key: r.GetKey(), Operator: corev1.NodeSelectorOperator(r.GetOperator()), Values: r.GetValues()})
	}
	reqs, err := catalog.NewRequirements(list)
	if err != nil {
		reqs = nil // NewNodeClaim reports it; until then all offerings count.
	}
	return b.prices.Most(names, reqs)
}

// narrowed returns the instance types that count no more than what is expected against any limit. Under a limit in USD they are those of the expected
// zone and capacity type, which the claim is then pinned to. short says which choice the NodePool's minValues would lack; "" for none.
func (b *budget) narrowed(c *api.Claim, names []string, expected corev1.ResourceList) (kept []string, short string) {
	kept = b.known(names, expected)
	if !b.limitsUSD() {
		return kept, ""
	}
	e, most := c.GetExpected(), catalog.MicroUSDOf(expected[catalog.LimitUSD])
	kept = slices.DeleteFunc(kept, func(name string) bool {
		micro, known := b.prices.At(name, e.GetZone(), e.GetCapacityType())
		return !known || micro > most
	})
	return kept, b.lacks(c, kept)
}

// lacks returns the first key of which the instance types, in one zone and of one capacity type, have fewer values than the claim's minValues; "" for none.
func (b *budget) lacks(c *api.Claim, names []string) string {
	for _, r := range c.GetRequirements() {
		values := map[string]bool{}
		for _, name := range names {
			switch r.GetKey() {
			case corev1.LabelTopologyZone, karpv1.CapacityTypeLabelKey:
				values[""] = true
			case corev1.LabelInstanceTypeStable:
				values[name] = true
			default:
				values[b.types[name].Labels[r.GetKey()]] = true
			}
		}
		if len(values) < int(r.GetMinValues()) {
			return r.GetKey()
		}
	}
	return ""
}

// pin leaves EC2 the expected zone and capacity type alone.
func pin(c *api.Claim) {
	e := c.GetExpected()
	for _, label := range []struct{ key, value string }{{corev1.LabelTopologyZone, e.GetZone()}, {karpv1.CapacityTypeLabelKey, e.GetCapacityType()}} {
		c.Requirements = slices.DeleteFunc(c.GetRequirements(), func(r *api.Requirement) bool { return r.GetKey() == label.key })
		c.Requirements = append(c.Requirements, &api.Requirement{Key: label.key, Operator: string(corev1.NodeSelectorOpIn), Values: []string{label.value}})
	}
}

// figures returns what is used and allowed, for people.
func figures(name corev1.ResourceName, used, limit corev1.ResourceList) string {
	u, l := used[name], limit[name]
	if name == catalog.LimitUSD {
		return fmt.Sprintf("%s would be more than %s", usd(catalog.MicroUSDOf(u)), usd(catalog.MicroUSDOf(l)))
	}
	return fmt.Sprintf("%s would be more than %s", u.String(), l.String())
}

func usd(micro int64) string { return catalog.USD(float64(micro) / 1e6) }
