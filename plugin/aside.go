package plugin

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// asideFirst is for how long a pod is set aside whose planning failed for the first time, asideMost what that grows to
	// while it fails again.
	asideFirst = 10 * time.Second
	asideMost  = 10 * time.Minute
)

// asides are pods whose planning failed while they were planned alone, by UID. A pod stays in the list until it is planned
// without a failure, so that the next failure sets it aside for longer.
type asides map[types.UID]*aside

// aside is one of them.
type aside struct {
	entry entry
	// until is when it is planned again, wait how long that was from its last failure.
	until time.Time
	wait  time.Duration
	// retried says that it has been given back since.
	retried bool
}

// failed sets a pod aside and returns until when.
func (a asides) failed(e entry, now time.Time) time.Time {
	wait := asideFirst
	if old := a[e.pod.UID]; old != nil {
		wait = min(2*old.wait, asideMost)
	}
	a[e.pod.UID] = &aside{entry: e, until: now.Add(wait), wait: wait}
	return now.Add(wait)
}

// holds reports whether the pod is set aside at the time.
func (a asides) holds(uid types.UID, now time.Time) bool {
	x := a[uid]
	return x != nil && !x.retried && now.Before(x.until)
}

// due returns the pods whose time is over, each once, in the order in which they came.
func (a asides) due(now time.Time) []entry {
	var out []entry
	for _, x := range a {
		if !x.retried && !now.Before(x.until) {
			x.retried = true
			out = append(out, x.entry)
		}
	}
	slices.SortFunc(out, func(a, b entry) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.pod.UID, b.pod.UID)) })
	return out
}

// planned forgets the failures of pods that were planned.
func (a asides) planned(entries []entry) {
	if len(a) == 0 {
		return
	}
	for _, e := range entries {
		delete(a, e.pod.UID)
	}
}
