package verify

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

// left is what the limits of each NodePool leave beside the claims, whichever alternative they become.
func (s *scene) left() map[string]corev1.ResourceList {
	out := map[string]corev1.ResourceList{}
	for poolName, pool := range s.cat.NodePools {
		rest := pool.Limits.DeepCopy()
		for name, q := range rest {
			q.Sub(pool.Usage[name])
			rest[name] = q
		}
		out[poolName] = rest
	}
	for i := range s.claims {
		c := &s.claims[i]
		rest := out[c.NodePool]
		for name, q := range rest {
			q.Sub(s.largest(c, name))
			rest[name] = q
		}
	}
	return out
}

// largest is the most that the claim's node counts against a limit of its pool.
func (s *scene) largest(c *plan.Claim, of corev1.ResourceName) resource.Quantity {
	if of == limitOfNodes {
		return *resource.NewQuantity(1, resource.DecimalSI)
	}
	most := resource.Quantity{}
	for _, t := range s.cat.InstanceTypes[s.cat.NodePools[c.NodePool].NodeClass] {
		if q := t.Capacity[of]; slices.Contains(c.Alternatives, t.Name) && q.Cmp(most) > 0 {
			most = q
		}
	}
	return most
}

// within says that one more node of the type is within what the limits leave.
func within(t *catalog.InstanceType, left corev1.ResourceList) bool {
	for name, q := range left {
		need := t.Capacity[name]
		if name == limitOfNodes {
			need = *resource.NewQuantity(1, resource.DecimalSI)
		}
		if need.Cmp(q) > 0 {
			return false
		}
	}
	return true
}

// domains are empty nodes, one for each place where a node could be launched within what limits leave: PodTopologySpread
// knows only the domains of nodes that it sees, and a zone that has no node yet is a domain all the same.
func (w *World) domains(cat catalog.State, left map[string]corev1.ResourceList) []*framework.NodeInfo {
	var out []*framework.NodeInfo
	for _, name := range slices.Sorted(maps.Keys(cat.NodePools)) {
		pool := cat.NodePools[name]
		wanted, err := catalog.NewRequirements(pool.Requirements)
		if !pool.Ready || err != nil {
			continue
		}
		seen := map[string]bool{}
		// In an order of their own: the first type of a place stands for it.
		for _, t := range slices.SortedFunc(slices.Values(cat.InstanceTypes[pool.NodeClass]), typesByName) {
			if !within(&t, left[name]) {
				continue
			}
			for _, o := range t.Offerings {
				key := o.Zone + "/" + o.CapacityType + "/" + t.Labels[corev1.LabelArchStable]
				if !o.Available || seen[key] {
					continue
				}
				labels := offeringLabels(pool, t, o)
				if _, ok := wanted.Match(labels); !ok {
					continue
				}
				seen[key] = true
				ni := framework.NewNodeInfo()
				ni.SetNode(virtualNode("empty/"+name+"/"+key, labels, pool.Taints, t.Allocatable))
				out = append(out, ni)
			}
		}
	}
	return out
}

func typesByName(a, b catalog.InstanceType) int { return strings.Compare(a.Name, b.Name) }
