package clusterview

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Recounted returns the catalog as it is with more nodes and without others: what they count toward the limits of their NodePools changes, except toward
// catalog.LimitUSD, which holds at each moment. The catalog that it got is not changed.
func Recounted(cat catalog.State, more, less []*corev1.Node) catalog.State {
	count := func(node *corev1.Node, change func(*resource.Quantity, resource.Quantity)) {
		pool, ok := cat.NodePools[node.Labels[karpv1.NodePoolLabelKey]]
		if !ok || len(pool.Limits) == 0 {
			return
		}
		pool.Usage = pool.Usage.DeepCopy()
		if pool.Usage == nil {
			pool.Usage = corev1.ResourceList{}
		}
		for name := range pool.Limits {
			if name != catalog.LimitUSD {
				used := pool.Usage[name]
				change(&used, counts(node, name))
				pool.Usage[name] = used
			}
		}
		cat.NodePools[pool.Name] = pool
	}
	if len(more)+len(less) > 0 {
		cat.NodePools = maps.Clone(cat.NodePools)
	}
	for _, node := range more {
		count(node, (*resource.Quantity).Add)
	}
	for _, node := range less {
		count(node, func(used *resource.Quantity, q resource.Quantity) {
			if used.Sub(q); used.Sign() < 0 {
				*used = resource.Quantity{} // The launcher counts what the NodeClaim has, which may be less.
			}
		})
	}
	return cat
}

// counts returns what a node counts toward one limit of its NodePool.
func counts(node *corev1.Node, limit corev1.ResourceName) resource.Quantity {
	switch {
	case limit == LimitOfNodes:
		return *resource.NewQuantity(1, resource.DecimalSI)
	case len(node.Status.Capacity) == 0:
		return node.Status.Allocatable[limit]
	}
	return node.Status.Capacity[limit]
}

// LimitsOfMove returns the Source with a catalog in which nodes that terminate do not count toward limits, if the plan is for pods of such nodes: what
// replaces a node counts once that has terminated. For other pods each node counts until it has.
func (s Source) LimitsOfMove() (Source, error) {
	if len(s.Going) == 0 {
		return s, nil
	}
	infos, err := s.Snapshot.NodeInfos().List()
	if err != nil {
		return s, err
	}
	var less []*corev1.Node
	for _, info := range infos {
		node := info.Node()
		disrupted := func(t corev1.Taint) bool { return t.Key == karpv1.DisruptedTaintKey }
		if node != nil && (s.Going[node.Name] || slices.ContainsFunc(node.Spec.Taints, disrupted)) {
			less = append(less, node)
		}
	}
	s.Catalog = Recounted(s.Catalog, nil, less)
	return s, nil
}
