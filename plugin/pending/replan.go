package pending

import (
	"time"
)

const (
	// replanFirst is how long after a change that may help the unplaced pods are planned again: changes come in swarms.
	replanFirst = time.Second
	// replanMost bounds what it grows to while that places no pod.
	replanMost = 16 * time.Second
	// replanIdle is how long after a change that cannot help they are planned again: their conditions are to be true.
	replanIdle = time.Minute
	// restFactor is how long planning rests after a plan that ran out of time, as a multiple of what that took.
	restFactor = 4
)

// replanning is when the pods for which nothing could be planned are planned again.
type replanning struct {
	// at is when; zero for when something changes.
	at time.Time
	// wait grows while planning again places no pod. last is when it was done.
	wait time.Duration
	last time.Time
}

// by makes it be done at the time, unless it is done earlier.
func (r *replanning) by(at time.Time) {
	if r.at.IsZero() || at.Before(r.at) {
		r.at = at
	}
}

// changed records that what can be launched has changed, and whether that may help.
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

// due reports whether it is time.
func (r *replanning) due(now time.Time) bool {
	if r.at.IsZero() || now.Before(r.at) {
		return false
	}
	r.at, r.last = time.Time{}, now
	r.wait = min(max(2*r.wait, replanFirst), replanMost)
	return true
}

// placed records that a plan placed pods that had been unplaced.
func (r *replanning) placed() { r.wait = 0 }
