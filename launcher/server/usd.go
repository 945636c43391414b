package server

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// usdLimit is what is known of a NodePool's limit in USD.
type usdLimit struct {
	prices catalog.Prices
	// holds means that the NodePool has the limit.
	holds bool
}

// newUSDLimit returns that of a NodePool with these instance types and limits.
func newUSDLimit(pool *karpv1.NodePool, types map[string]catalog.InstanceType, limits corev1.ResourceList) usdLimit {
	declared, _ := catalog.DeclaredCost(pool.Annotations) // The NodePool's condition reports the error.
	_, holds := limits[catalog.LimitUSD]
	return usdLimit{catalog.Prices{Types: types, Declared: declared}, holds}
}

// expected adds to the usage of a claim's node what it costs as the expected offering; where that is not known, the most that the claim allows.
func (l usdLimit) expected(usage corev1.ResourceList, c *api.Claim) corev1.ResourceList {
	if !l.holds {
		return usage
	}
	e := c.GetExpected()
	micro, known := l.prices.At(e.GetInstanceType(), e.GetZone(), e.GetCapacityType())
	if !known {
		micro = l.mostOf(c, c.GetInstanceTypes())
	}
	usage[catalog.LimitUSD] = catalog.USDQuantity(micro)
	return usage
}

// most adds the most that a node may cost which EC2 chooses among the instance types.
func (l usdLimit) most(usage corev1.ResourceList, c *api.Claim, names []string) corev1.ResourceList {
	if l.holds {
		usage[catalog.LimitUSD] = catalog.USDQuantity(l.mostOf(c, names))
	}
	return usage
}

func (l usdLimit) mostOf(c *api.Claim, names []string) int64 {
	list := make([]catalog.Requirement, 0, len(c.GetRequirements()))
	for _, r := range c.GetRequirements() {
		list = append(list, catalog.Requirement{Key: r.GetKey(), Operator: corev1.NodeSelectorOperator(r.GetOperator()), Values: r.GetValues()})
	}
	reqs, err := catalog.NewRequirements(list)
	if err != nil {
		reqs = nil // NewNodeClaim reports it; until then all offerings count.
	}
	return l.prices.Most(names, reqs)
}

// narrowed returns those of the instance types that cost no more than what is expected, in the expected zone and as the expected capacity type, which the
// claim is then pinned to; all of them without the limit. short says which choice the NodePool's minValues would lack; "" for none.
func (l usdLimit) narrowed(c *api.Claim, names []string, expected corev1.ResourceList) (kept []string, short string) {
	if !l.holds {
		return names, ""
	}
	e, most := c.GetExpected(), catalog.MicroUSDOf(expected[catalog.LimitUSD])
	kept = slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		micro, known := l.prices.At(name, e.GetZone(), e.GetCapacityType())
		return !known || micro > most
	})
	return kept, l.lacks(c, kept)
}

// lacks returns the first key of which the instance types, in one zone and of one capacity type, have fewer values than the claim's minValues; "" for none.
func (l usdLimit) lacks(c *api.Claim, names []string) string {
	for _, r := range c.GetRequirements() {
		values := map[string]bool{}
		for _, name := range names {
			switch r.GetKey() {
			case corev1.LabelTopologyZone, karpv1.CapacityTypeLabelKey:
				values[""] = true
			case corev1.LabelInstanceTypeStable:
				values[name] = true
			default:
				values[l.prices.Types[name].Labels[r.GetKey()]] = true
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
		return fmt.Sprintf("%s would be more than %s", catalog.USD(float64(catalog.MicroUSDOf(u))/1e6), catalog.USD(float64(catalog.MicroUSDOf(l))/1e6))
	}
	return fmt.Sprintf("%s would be more than %s", u.String(), l.String())
}
