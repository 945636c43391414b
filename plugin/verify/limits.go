package verify

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/provision/clusterview"
)

// left returns what remains of each NodePool's limits after the claims, whichever alternative EC2 launches.
func left(cat catalog.State, claims []plan.Claim) map[string]corev1.ResourceList {
	out := map[string]corev1.ResourceList{}
	for poolName, pool := range cat.NodePools {
		rest := pool.Limits.DeepCopy()
		for name, q := range rest {
			q.Sub(pool.Usage[name])
			rest[name] = q
		}
		out[poolName] = rest
	}
	for i := range claims {
		c := &claims[i]
		rest := out[c.NodePool]
		for name, q := range rest {
			q.Sub(largest(cat, c, name))
			rest[name] = q
		}
	}
	return out
}

// largest returns the most that the claim's node can count against a limit of its NodePool.
func largest(cat catalog.State, c *plan.Claim, of corev1.ResourceName) resource.Quantity {
	if of == clusterview.LimitOfNodes {
		return *resource.NewQuantity(1, resource.DecimalSI)
	}
	if of == catalog.LimitUSD {
		return c.LimitedUSD(cat)
	}
	most := resource.Quantity{}
	for _, t := range cat.TypesOf(c.NodePool) {
		if q := t.Capacity[of]; slices.Contains(c.Alternatives, t.Name) && q.Cmp(most) > 0 {
			most = q
		}
	}
	return most
}
