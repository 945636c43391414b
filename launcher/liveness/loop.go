package liveness

import (
	"fmt"
	"net/http"
	"sync"
	"time"
)

// Within is how long a loop may take to come round. Each comes round within 10 seconds where all is well; the rest is for a
// machine that is short of CPU, since a restart there would make things worse.
const Within = time.Minute

// Period is how often at least a loop that waits for work has to come round.
const Period = 10 * time.Second

// Loop notes when one loop came round last. The zero value has not begun. It is safe for concurrent use.
type Loop struct {
	mu   sync.Mutex
	last time.Time
}

// Tick notes that the loop comes round.
func (l *Loop) Tick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = time.Now()
}

// Stop notes that the loop has ended in order.
func (l *Loop) Stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = time.Time{}
}

// Check is a healthz.Checker of controller-runtime. It returns an error where the loop has begun, has not ended, and has not come
// round for longer than Within. A loop begins once the caches are filled, which is the readiness probe's to tell.
func (l *Loop) Check(*http.Request) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last.IsZero() {
		return nil
	}
	// The monotonic clock: a wall clock that is set forward ends no process.
	if since := time.Since(l.last); since > Within {
		return fmt.Errorf("the loop has not come round for %s, it has %s", since.Round(time.Second), Within)
	}
	return nil
}
