package plugin

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

const (
	// replanFirst is how long after a change that may help the unplaced pods are planned again: changes come in swarms.
	replanFirst = time.Second
	// replanMost bounds what it grows to while that places nobody.
	replanMost = 16 * time.Second
	// replanIdle is how long after a change that cannot help they are planned again, to be told what is true now.
	replanIdle = time.Minute
)

// replanning says when the pods for which nothing could be planned are planned again.
type replanning struct {
	// at is when; zero for when something changes.
	at time.Time
	// wait grows while planning again places nobody. last is when it was done.
	wait time.Duration
	last time.Time
}

// by makes it be done at the time, unless it is done earlier.
func (r *replanning) by(at time.Time) {
	if r.at.IsZero() || at.Before(r.at) {
		r.at = at
	}
}

// changed is told that what can be launched has changed, and whether that may help.
func (r *replanning) changed(may bool, now time.Time) {
	if !may {
		r.by(now.Add(replanIdle))
		return
	}
	if now.Sub(r.last) > replanIdle {
		r.wait = 0
	}
	r.by(now.Add(max(r.wait, replanFirst)))
}

// due says whether it is time.
func (r *replanning) due(now time.Time) bool {
	if r.at.IsZero() || now.Before(r.at) {
		return false
	}
	r.at, r.last = time.Time{}, now
	r.wait = min(max(2*r.wait, replanFirst), replanMost)
	return true
}

// placed is told that a plan placed pods that had been unplaced.
func (r *replanning) placed() { r.wait = 0 }

// mayHelp says whether a pod for which nothing could be launched before may find something now. What takes away, and what
// only changes prices, helps nobody.
func mayHelp(before, after catalog.State) bool {
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

// poolHelps says whether a pool that may launch lets more pods be launched for than before. Another weight may, since pools
// of lower weight are not asked where one of higher weight is.
func poolHelps(before, after catalog.NodePool) bool {
	if !before.Ready || before.NodeClass != after.NodeClass || before.Weight != after.Weight {
		return true
	}
	if more(before.Limits, after.Limits, true) || more(after.Usage, before.Usage, false) {
		return true
	}
	return !maps.Equal(before.Labels, after.Labels) || !equality.Semantic.DeepEqual(before.Taints, after.Taints) ||
		!equality.Semantic.DeepEqual(before.Requirements, after.Requirements)
}

// more says whether b has more of a resource than a; one that b does not have counts as endless where absent is true, else
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

// typeHelps says whether the type runs pods that it did not before.
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
