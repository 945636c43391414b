package nodepool

import (
	"maps"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Labels returns those of the pool's nodes that the pool decides: those of its template, its name, and the tenancy if it is dedicated.
func Labels(pool *karpv1.NodePool) map[string]string {
	out := map[string]string{karpv1.NodePoolLabelKey: pool.Name}
	maps.Copy(out, pool.Spec.Template.Labels)
	var requirements []catalog.Requirement
	for _, r := range pool.Spec.Template.Spec.Requirements {
		requirements = append(requirements, catalog.Requirement{Key: r.Key, Operator: r.Operator, Values: r.Values})
	}
	if catalog.PoolTenancy(requirements) == catalog.TenancyDedicated {
		out[catalog.LabelInstanceTenancy] = catalog.TenancyDedicated
	}
	return out
}
