package liveness

import (
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Within is the maximum time between two rounds of a loop. A healthy loop's round takes at most 10 seconds; the rest is a margin for a
// machine that is short of CPU, since a restart there would make things worse.
const Within = time.Minute

// Period is the maximum time between two rounds of a loop that waits for work.
const Period = 10 * time.Second

// Loop records when one loop last reported. The zero value has not begun. It is safe for concurrent use.
type Loop struct {
	mu   sync.Mutex
	last time.Time
}

// Tick records a round of the loop.
func (l *Loop) Tick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = time.Now()
}

// Stop records that the loop has ended normally.
func (l *Loop) Stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = time.Time{}
}

// Check is a healthz.Checker of controller-runtime. It returns an error if the loop has begun, has not ended, and has not reported for
// longer than Within. A loop begins once the caches are filled, which the readiness probe checks.
func (l *Loop) Check(*http.Request) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last.IsZero() {
		return nil
	}
	// This uses the monotonic clock: setting the wall clock forward does not fail the probe.
	if since := time.Since(l.last); since > Within {
		return fmt.Errorf("the loop has reported no round for %s, the maximum is %s", since.Round(time.Second), Within)
	}
	return nil
}
