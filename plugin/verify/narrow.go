package verify

import (
	"context"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"

	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/provision/clusterview"
)

// narrow turns a rejection by a filter into the smallest one that keeps the planner from repeating it. It tries in this order:
//
//  1. on a node that exists or is in flight: the class is not placed there;
//  2. with fewer pods of its own class it fits, and the conflict is within the node: at most that many per node;
//  3. without the other classes it fits, and the conflict is within the node: not together with them;
//  4. without the node's DaemonSet pods it fits: on no offering whose nodes run the DaemonSets that suffice for the rejection,
//     in the same zone or of the same capacity type if the filter looks at those. Where they run only on nodes with a label that pods choose there may be none;
//  5. otherwise by what the filter looks at: the zone, the capacity type, the NodePool, the instance type, or this offering.
func (v *Verifier) narrow(ctx context.Context, t *trial, s *spot, status *fwk.Status) []plan.Rejection {
	class := t.class
	plugin, why := status.Plugin(), reason(status)
	fits := func(leave func(types.UID) bool) bool {
		st, err := v.filter(ctx, t, s, leave)
		return err == nil && st.IsSuccess()
	}
	if s.claim != nil && withinNode(class.Pod, plugin) {
		if r, ok := v.withinSpot(t, s, why, fits); ok {
			return []plan.Rejection{r}
		}
	}
	if s.claim != nil && amongPods(plugin) && fits(func(u types.UID) bool { return s.daemons[u] != nil }) {
		if out := t.scene.beside(s, enough(s.daemons, fits), plan.Rejection{ClassKey: class.Key, Reason: why}, domainOf(&class, plugin)); len(out) > 0 {
			return out
		}
	}
	if s.claim != nil && foreign(plugin) {
		return v.wherever(ctx, t, s, status)
	}
	return []plan.Rejection{s.reject(class, why, plugin)}
}

// wherever rejects the ways in which EC2 may launch the claim that a plugin of others refuses: what it looks at is not known.
func (v *Verifier) wherever(ctx context.Context, t *trial, s *spot, status *fwk.Status) []plan.Rejection {
	out := []plan.Rejection{s.reject(t.class, reason(status), status.Plugin())}
	spots := t.scene.of(s.claim)
	for _, x := range t.scene.variants(s.claim) {
		if x.of.Same(s.claim.Expected) || ctx.Err() != nil {
			continue
		}
		other, err := t.instead(ctx, s, s.node, x.with(spots))
		if err == nil && other.IsRejected() && other.Plugin() == status.Plugin() {
			out = append(out, x.reject(t.class.Key, s.claim.NodePool, reason(other)))
		}
	}
	return out
}

// domain lists which labels of an offering the plugin's constraints distinguish nodes by.
type domain struct{ zone, capacityType, pool bool }

func domainOf(class *plan.Class, plugin string) domain {
	var keys []string
	switch plugin {
	case names.PodTopologySpread:
		constraints := class.Pod.Spec.TopologySpreadConstraints
		if len(constraints) == 0 {
			constraints = class.DefaultSpread
		}
		for _, c := range constraints {
			if c.WhenUnsatisfiable == corev1.DoNotSchedule {
				keys = append(keys, c.TopologyKey)
			}
		}
	case names.InterPodAffinity:
		for _, t := range requiredTerms(class.Pod) {
			keys = append(keys, t.TopologyKey)
		}
	}
	var out domain
	for _, key := range keys {
		switch key {
		case corev1.LabelTopologyZone:
			out.zone = true
		case clusterview.LabelCapacityType:
			out.capacityType = true
		case corev1.LabelHostname:
		default:
			out.pool = true
		}
	}
	if out == (domain{}) {
		out.zone = true // Constraints of other pods may be about zones.
	}
	return out
}

// withinSpot does steps 2 and 3 of narrow.
func (v *Verifier) withinSpot(t *trial, s *spot, why string, fits func(func(types.UID) bool) bool) (plan.Rejection, bool) {
	class := t.class
	own := map[types.UID]bool{}
	for _, p := range s.pods[1:] {
		own[p.Pod.UID] = true
	}
	if len(own) > 0 && fits(func(u types.UID) bool { return own[u] }) {
		return plan.Rejection{ClassKey: class.Key, MaxPerNode: v.most(fits, s), Reason: why}, true
	}
	if with := s.with(class.Key); len(with) > 0 && fits(func(u types.UID) bool { return s.others[u] != "" }) {
		return plan.Rejection{ClassKey: class.Key, NodePool: s.claim.NodePool, With: with, Reason: why}, true
	}
	return plan.Rejection{}, false
}

// amongPods reports whether the plugin looks at the pods of the node.
func amongPods(plugin string) bool {
	switch plugin {
	case names.InterPodAffinity, names.PodTopologySpread, names.NodePorts, names.VolumeRestrictions:
		return true
	}
	return false
}

// enough returns a minimal set of daemons that suffices for the filter's rejection: without any one of them the pod fits.
func enough(daemons map[types.UID]*appsv1.DaemonSet, fits func(func(types.UID) bool) bool) map[types.UID]*appsv1.DaemonSet {
	out := maps.Clone(daemons)
	for _, uid := range slices.Sorted(maps.Keys(daemons)) {
		delete(out, uid)
		if fits(func(u types.UID) bool { return daemons[u] != nil && out[u] == nil }) {
			out[uid] = daemons[uid]
		}
	}
	return out
}

// beside rejects the offerings whose nodes run all of the DaemonSets too.
func (s *scene) beside(at *spot, daemons map[types.UID]*appsv1.DaemonSet, verdict plan.Rejection, by domain) []plan.Rejection {
	var out []plan.Rejection
	expected := &at.claim.Expected
	for _, name := range slices.Sorted(maps.Keys(s.cat.NodePools)) {
		pool := s.cat.NodePools[name]
		for _, t := range s.cat.InstanceTypes[pool.TypesKey()] {
			for _, o := range t.Offerings {
				if by.zone && o.Zone != expected.Zone || by.capacityType && o.CapacityType != expected.CapacityType {
					continue
				}
				node := clusterview.VirtualNode("beside", clusterview.OfferingLabels(pool, t, o), pool.Taints, t.Allocatable)
				if !s.view.RunsAll(node, daemons) {
					continue
				}
				verdict.NodePool, verdict.InstanceType, verdict.Zone, verdict.CapacityType = name, t.Name, o.Zone, o.CapacityType
				out = append(out, verdict)
			}
		}
	}
	return out
}

// most returns how many pods of the class the node takes: at least one, and fewer than are planned.
func (v *Verifier) most(fits func(func(types.UID) bool) bool, s *spot) int {
	low, high := 1, len(s.pods)-1
	for low < high {
		keep := (low + high + 1) / 2
		gone := map[types.UID]bool{}
		for _, p := range s.pods[keep:] {
			gone[p.Pod.UID] = true
		}
		if fits(func(u types.UID) bool { return gone[u] }) {
			low = keep
		} else {
			high = keep - 1
		}
	}
	return low
}

// with lists the keys of the other classes on the node.
func (s *spot) with(key string) []string {
	var out []string
	for _, k := range s.others {
		if k != key && !slices.Contains(out, k) {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}

func (s *spot) reject(class plan.Class, why, plugin string) plan.Rejection {
	if s.claim == nil {
		return plan.Rejection{ClassKey: class.Key, Node: s.node.Node().Name, Reason: why}
	}
	c := s.claim
	out := plan.Rejection{ClassKey: class.Key, Reason: why}
	switch plugin {
	case names.PodTopologySpread, names.InterPodAffinity:
		by := domainOf(&class, plugin)
		if by.zone {
			out.Zone = c.Expected.Zone
		}
		if by.capacityType {
			out.CapacityType = c.Expected.CapacityType
		}
		if by.pool {
			out.NodePool = c.NodePool
		}
	case names.VolumeBinding, names.VolumeZone:
		out.Zone = c.Expected.Zone
	case names.TaintToleration:
		out.NodePool = c.NodePool
	case names.NodeResourcesFit, names.NodeVolumeLimits, names.NodeDeclaredFeatures:
		out.NodePool, out.InstanceType = c.NodePool, c.Expected.InstanceType
	default:
		out.NodePool, out.InstanceType = c.NodePool, c.Expected.InstanceType
		out.Zone, out.CapacityType = c.Expected.Zone, c.Expected.CapacityType
	}
	return out
}

// withinNode reports whether the rejection can be about the pods of this one node. It always can for filters that look at one
// node. For spread and affinity it can only if every required term is per host, since then no other node matters.
func withinNode(pod *corev1.Pod, plugin string) bool {
	switch plugin {
	case names.NodeResourcesFit, names.NodePorts, names.NodeVolumeLimits, names.VolumeRestrictions:
		return true
	case names.PodTopologySpread:
		return !slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c corev1.TopologySpreadConstraint) bool {
			return c.WhenUnsatisfiable == corev1.DoNotSchedule && c.TopologyKey != corev1.LabelHostname
		})
	case names.InterPodAffinity:
		return !slices.ContainsFunc(requiredTerms(pod), func(t corev1.PodAffinityTerm) bool {
			return t.TopologyKey != corev1.LabelHostname
		})
	}
	return false
}
