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
