package catalogview

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// recordedNode returns the node of a claim that EC2 has not launched, as the launcher will show it: with what it has whichever of the claim's instance types and
// offerings EC2 picks.
func recordedNode(cat catalog.State, c plan.Claim) catalog.InFlightNode {
	n := catalog.InFlightNode{
		NodeClaim: c.Name, NodePool: c.NodePool, Phase: catalog.PhaseRecorded, Labels: c.CertainLabels(cat.NodePools[c.NodePool]), Taints: c.Taints,
		Allocatable: c.Allocatable, Replaces: c.Replaces, Standby: c.Standby,
		InstanceType: c.Expected.InstanceType, Zone: c.Expected.Zone, CapacityType: c.Expected.CapacityType,
	}
	if least := ofAlternatives(cat, c, func(t *catalog.InstanceType) corev1.ResourceList { return t.Allocatable }, -1); len(least) > 0 {
		n.Allocatable = least
	}
	for _, m := range c.Members {
		for _, ref := range m.Pods {
			// The launcher knows no pods of buffers. With them the node of a standby buffer would count as awake.
			if !ref.Virtual() {
				n.Pods = append(n.Pods, ref)
			}
		}
	}
	return n
}

// recordedCapacity returns what the claim counts against the NodePool's limits: of each resource the most that one of its instance types has, as the launcher
// counts it.
func recordedCapacity(cat catalog.State, c plan.Claim) corev1.ResourceList {
	out := ofAlternatives(cat, c, func(t *catalog.InstanceType) corev1.ResourceList { return t.Capacity }, 1)
	if len(out) == 0 {
		return c.Allocatable
	}
	if _, limited := cat.NodePools[c.NodePool].Limits[catalog.LimitUSD]; limited {
		out[catalog.LimitUSD] = c.LimitedUSD(cat)
	}
	return out
}

// ofAlternatives returns of each resource the most that one of the claim's instance types has, or the least if sign is -1: nothing where one has nothing.
func ofAlternatives(cat catalog.State, c plan.Claim, of func(*catalog.InstanceType) corev1.ResourceList, sign int) corev1.ResourceList {
	var out corev1.ResourceList
	for _, t := range cat.TypesOf(c.NodePool) {
		if t.Name != c.Expected.InstanceType && !slices.Contains(c.Alternatives, t.Name) {
			continue
		}
		have := of(&t)
		if out == nil {
			out = have.DeepCopy()
			continue
		}
		for name, q := range have {
			if other, ok := out[name]; ok && q.Cmp(other)*sign > 0 || !ok && sign > 0 {
				out[name] = q
			}
		}
		for name := range out {
			if _, ok := have[name]; !ok && sign < 0 {
				delete(out, name)
			}
		}
	}
	return out
}
