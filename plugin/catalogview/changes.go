package catalogview

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// MayHelp reports whether a pod for which nothing could be launched before may find something now. A change that only takes
// away, or only changes prices, helps no pod.
func MayHelp(before, after catalog.State) bool {
	for name, pool := range after.NodePools {
		old, ok := before.NodePools[name]
		if pool.Ready && (!ok || poolHelps(old, pool)) {
			return true
		}
	}
	for name, types := range after.InstanceTypes {
		old := before.InstanceTypes[name]
		if len(old) > 0 && len(types) > 0 && &old[0] == &types[0] {
			continue
		}
		known := make(map[string]*catalog.InstanceType, len(old))
		for i := range old {
			known[old[i].Name] = &old[i]
		}
		if slices.ContainsFunc(types, func(t catalog.InstanceType) bool { return typeHelps(known[t.Name], &t) }) {
			return true
		}
	}
	return false
}

// Edited reports whether a NodePool has another spec or minimum on-demand share than before, is ready or not for another reason, is new, or is gone.
func Edited(before, after catalog.State) bool {
	return !maps.EqualFunc(before.NodePools, after.NodePools, func(a, b catalog.NodePool) bool {
		return a.Generation == b.Generation && a.Ready == b.Ready && a.NotReadyMessage == b.NotReadyMessage && a.OnDemandShare == b.OnDemandShare
	})
}

// poolHelps reports whether a pool that may launch allows launches for more pods than before. Another weight may, since pools
// of lower weight are not used where one of higher weight is.
func poolHelps(before, after catalog.NodePool) bool {
	if !before.Ready || before.NodeClass != after.NodeClass || before.Overlaid != after.Overlaid || before.Weight != after.Weight ||
		after.OnDemandShare < before.OnDemandShare {
		return true
	}
	if more(before.Limits, after.Limits, true) || more(after.Usage, before.Usage, false) {
		return true
	}
	return !maps.Equal(before.Labels, after.Labels) || !equality.Semantic.DeepEqual(before.Taints, after.Taints) ||
		!equality.Semantic.DeepEqual(before.Requirements, after.Requirements)
}

// more reports whether b has more of a resource than a; one that b does not have counts as endless where absent is true, else
// as none.
func more(a, b corev1.ResourceList, absent bool) bool {
	for name, have := range a {
		got, ok := b[name]
		if !ok && absent || ok && got.Cmp(have) > 0 {
			return true
		}
	}
	if absent {
		return false
	}
	for name, got := range b {
		if _, ok := a[name]; !ok && !got.IsZero() {
			return true
		}
	}
	return false
}

// typeHelps reports whether the type runs pods that it did not before.
func typeHelps(before, after *catalog.InstanceType) bool {
	if before == nil || before.VolumeAttachments < after.VolumeAttachments || !maps.Equal(before.Labels, after.Labels) ||
		more(before.Allocatable, after.Allocatable, false) {
		return slices.ContainsFunc(after.Offerings, func(o catalog.Offering) bool { return o.Available })
	}
	for _, o := range after.Offerings {
		if o.Available && !slices.ContainsFunc(before.Offerings, func(b catalog.Offering) bool {
			return b.Available && b.Zone == o.Zone && b.CapacityType == o.CapacityType && b.ReservationID == o.ReservationID && b.Remaining >= o.Remaining
		}) {
			return true
		}
	}
	return false
}
