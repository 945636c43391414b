package clusterview

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// within reports whether one more node of the type keeps to what the limits leave.
func within(t *catalog.InstanceType, left corev1.ResourceList) bool {
	for name, q := range left {
		need := t.Capacity[name]
		if name == LimitOfNodes {
			need = *resource.NewQuantity(1, resource.DecimalSI)
		}
		if need.Cmp(q) > 0 {
			return false
		}
	}
	return true
}

// affordable reports whether one more node of an offering at this price keeps to what the limit in USD leaves.
func affordable(t *catalog.InstanceType, price float64, pool catalog.NodePool, left corev1.ResourceList) bool {
	q, limited := left[catalog.LimitUSD]
	return !limited || t.LimitedUSD(price, pool.Declared) <= catalog.MicroUSDOf(q)
}

// Domains returns empty nodes, one for each place where a node could be launched within the limits. PodTopologySpread knows only
// the domains of nodes that it is given, but a zone that has no node yet is a domain as well. As for the planner, a place whose offerings are on probation or
// have not settled is none: a node there may never come. The nodes have no DaemonSet pods, and their Nodes are the caller's.
func (v *View) Domains(cat catalog.State, left map[string]corev1.ResourceList) []*framework.NodeInfo {
	var out []*framework.NodeInfo
	for _, name := range slices.Sorted(maps.Keys(cat.NodePools)) {
		pool := cat.NodePools[name]
		wanted, err := catalog.NewRequirements(pool.Requirements)
		if !pool.Ready || err != nil {
			continue
		}
		seen := map[string]bool{}
		// In an order of their own: the first type of a place stands for it.
		for _, t := range slices.SortedFunc(slices.Values(cat.InstanceTypes[pool.TypesKey()]), typesByName) {
			if !within(&t, left[name]) {
				continue
			}
			for _, o := range t.Offerings {
				key := o.Zone + "/" + o.CapacityType + "/" + t.Labels[corev1.LabelArchStable]
				if !o.Available || o.Probation || plan.Unsettled(o, v.now) || seen[key] || !affordable(&t, o.Price, pool, left[name]) {
					continue
				}
				labels := OfferingLabels(pool, t, o)
				if _, ok := wanted.Match(labels); !ok {
					continue
				}
				seen[key] = true
				ni := framework.NewNodeInfo()
				ni.SetNode(VirtualNode("empty/"+name+"/"+key, labels, pool.Taints, t.Allocatable))
				out = append(out, ni)
			}
		}
	}
	return out
}

func typesByName(a, b catalog.InstanceType) int { return strings.Compare(a.Name, b.Name) }
