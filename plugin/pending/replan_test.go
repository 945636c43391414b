package pending

import (
	"testing"
	"time"
)

// Planning again waits longer each time that it places no pod.
func TestReplanning(t *testing.T) {
	now := time.Now()
	var r replanning
	if r.due(now.Add(time.Hour)) {
		t.Error("due without a change")
	}
	plans := 0
	for second := range 120 {
		at := now.Add(time.Duration(second) * time.Second)
		// Ten changes a second, each of which might help.
		for range 10 {
			r.changed(true, at)
		}
		if r.due(at) {
			plans++
		}
	}
	if plans < 5 || plans > 12 {
		t.Errorf("planned %d times in two minutes", plans)
	}
	r.placed()
	later := now.Add(120 * time.Second)
	r.at = time.Time{}
	r.changed(true, later)
	if !r.due(later.Add(replanFirst)) {
		t.Error("a plan that placed pods starts from the beginning")
	}
	r.changed(false, later)
	if r.due(later.Add(replanIdle-1)) || !r.due(later.Add(replanIdle)) {
		t.Error("a change that helps no pod has its plan after a while")
	}
	// After a quiet time the first change counts at once again.
	r.wait = replanMost
	r.changed(true, later.Add(5*replanIdle))
	if !r.due(later.Add(5*replanIdle + replanFirst)) {
		t.Error("the first change after a quiet time waits")
	}
}

// The reasons of pods are those of the NodePools as they are: after an edit the wait is short, however long it has grown and whether the edit
// may help or not. Edits without end cause no plans without end.
func TestReplanningAfterEdits(t *testing.T) {
	now := time.Now()
	r := replanning{wait: replanMost, last: now.Add(-5 * time.Second)}
	r.changed(true, now)
	if r.due(now.Add(replanFirst)) {
		t.Fatal("a change that is no edit does not wait")
	}
	r.edited(now)
	if !r.due(now.Add(replanFirst)) {
		t.Error("an edit waits")
	}
	r.changed(false, now.Add(time.Minute))
	r.edited(now.Add(time.Minute))
	if !r.due(now.Add(time.Minute + replanFirst)) {
		t.Error("an edit that cannot help waits")
	}
	plans := 0
	for tenth := range 1200 {
		at := now.Add(time.Hour + time.Duration(tenth)*100*time.Millisecond)
		r.edited(at)
		if r.due(at) {
			plans++
		}
	}
	if most := int(2 * time.Minute / editedRest); plans < most/2 || plans > most+1 {
		t.Errorf("planned %d times in two minutes of edits, want at most %d", plans, most+1)
	}
}
