package pending

import (
	"time"
)

const (
	// replanFirst is the time between a change that may help and the next plan of the unplaced pods: changes come in bursts.
	replanFirst = time.Second
	// replanMost bounds that time, which grows while planning again places no pod.
	replanMost = 16 * time.Second
	// replanIdle is the time between a change that cannot help and the next plan, which keeps the pods' conditions true.
	replanIdle = time.Minute
	// editedRest is the least time between two plans after edits of NodePools: users read the conditions right after an edit.
	editedRest = 2 * time.Second
	// restFactor is the pause after a plan that ran out of time, as a multiple of the plan's duration.
	restFactor = 4
)

// replanning decides when the pods for which nothing could be planned are planned again.
type replanning struct {
	// at is the next time; zero until something changes.
	at time.Time
	// wait is the time from a change to the next plan. It grows while planning again places no pod. last is when due last
	// returned true.
	wait time.Duration
	last time.Time
}

// by sets the next time, unless there is an earlier one.
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

// edited records that a NodePool is another one than before. The reasons of the pods name it, so they do not wait as long as after other
// changes, whether the edit may help or not.
func (r *replanning) edited(now time.Time) {
	at := now.Add(replanFirst)
	if rested := r.last.Add(editedRest); rested.After(at) {
		at = rested
	}
	r.by(at)
}

// due reports whether the time has come.
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
