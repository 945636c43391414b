package pending

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/plugin/intake"
)

const (
	// asideFirst is how long a pod is set aside whose planning failed for the first time. It doubles with each failure, up to
	// asideMost.
	asideFirst = 10 * time.Second
	asideMost  = 10 * time.Minute
)

// asides are pods whose planning failed while they were planned alone, by UID. A pod stays in the list until it is planned
// without a failure, so that the next failure sets it aside for longer.
type asides map[types.UID]*aside

// aside is a pod that is set aside.
type aside struct {
	entry intake.Entry
	// until is when the pod is planned again. wait is the time between its last failure and until.
	until time.Time
	wait  time.Duration
	// retried means that due has returned the pod since its last failure.
	retried bool
}

// failed sets a pod aside and returns the end of that time.
func (a asides) failed(e intake.Entry, now time.Time) time.Time {
	wait := asideFirst
	if old := a[e.Pod.UID]; old != nil {
		wait = min(2*old.wait, asideMost)
	}
	a[e.Pod.UID] = &aside{entry: e, until: now.Add(wait), wait: wait}
	return now.Add(wait)
}

// holds reports whether the pod is set aside at the time.
func (a asides) holds(uid types.UID, now time.Time) bool {
	x := a[uid]
	return x != nil && !x.retried && now.Before(x.until)
}

// due returns the pods whose time is over, each once, in the order in which they came.
func (a asides) due(now time.Time) []intake.Entry {
	var out []intake.Entry
	for _, x := range a {
		if !x.retried && !now.Before(x.until) {
			x.retried = true
			out = append(out, x.entry)
		}
	}
	intake.Sort(out)
	return out
}

// planned forgets the failures of pods that were planned.
func (a asides) planned(entries []intake.Entry) {
	if len(a) == 0 {
		return
	}
	for _, e := range entries {
		delete(a, e.Pod.UID)
	}
}
