package plugin

import (
	"testing"
	"testing/synctest"
	"time"
)

// The first scheduling cycle begins when the launcher has told the promises, or when it has had its time; no later one waits.
func TestTheFirstCycleWaitsForThePromises(t *testing.T) {
	for _, c := range []struct {
		name        string
		told        time.Duration
		first, next time.Duration
	}{
		{"told", 300 * time.Millisecond, 300 * time.Millisecond, 0},
		{"silent", time.Hour, beginWithin, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, start := newBeginning(), time.Now()
				time.AfterFunc(c.told, func() { b.know(); b.know() })
				b.wait()
				if waited := time.Since(start); waited != c.first {
					t.Errorf("the first cycle waited %s, want %s", waited, c.first)
				}
				start = time.Now()
				b.wait()
				if waited := time.Since(start); waited != c.next {
					t.Errorf("the second cycle waited %s", waited)
				}
			})
		})
	}
}
