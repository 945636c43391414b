// Package template reads what the template of a NodePool wants of its nodes. It is pure.
package template

import (
	"maps"
	"slices"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// maxMinValues is more than the API of NodePools allows for minValues, which is 50.
const maxMinValues = 100

// Requirements returns those of the NodePool's nodes: its spec.requirements, and one for each label of the template whose key, a deprecated one included, is
// well known. Such a label restricts what is launched, as in Karpenter. The values are shared with the NodePool.
func Requirements(pool *karpv1.NodePool) []karpv1.NodeSelectorRequirementWithMinValues {
	out := slices.Clone(pool.Spec.Template.Spec.Requirements)
	labels := pool.Spec.Template.Labels
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if restricts(key) {
			out = append(out, karpv1.NodeSelectorRequirementWithMinValues{
				Key: catalog.NormalKey(key), Operator: corev1.NodeSelectorOpIn, Values: []string{labels[key]},
			})
		}
	}
	return out
}

// Needs returns Requirements as those of the catalog.
func Needs(pool *karpv1.NodePool) []catalog.Requirement {
	var out []catalog.Requirement
	for _, r := range Requirements(pool) {
		one := catalog.Requirement{Key: r.Key, Operator: r.Operator, Values: slices.Clone(r.Values)}
		if r.MinValues != nil {
			one.MinValues = int32(min(max(*r.MinValues, 0), maxMinValues))
		}
		out = append(out, one)
	}
	return out
}

// Labels returns those of the pool's nodes that the pool sets: those of its template, its name, and the tenancy if it is dedicated.
func Labels(pool *karpv1.NodePool) map[string]string {
	out := map[string]string{karpv1.NodePoolLabelKey: pool.Name}
	maps.Copy(out, pool.Spec.Template.Labels)
	if catalog.PoolTenancy(Needs(pool)) == catalog.TenancyDedicated {
		out[awsv1.LabelInstanceTenancy] = catalog.TenancyDedicated
	}
	return out
}

// Decided returns those of Labels that the pool alone decides. The others are requirements: what is launched has them by itself.
func Decided(pool *karpv1.NodePool) map[string]string {
	out := Labels(pool)
	maps.DeleteFunc(out, func(key, value string) bool {
		return restricts(key) && (key != awsv1.LabelInstanceTenancy || value != catalog.TenancyDedicated)
	})
	return out
}

// restricts reports whether a label of a template is a requirement. The NodePool's name is no choice.
func restricts(key string) bool {
	normal := catalog.NormalKey(key)
	return normal != karpv1.NodePoolLabelKey && karpv1.WellKnownLabels.Has(normal)
}
