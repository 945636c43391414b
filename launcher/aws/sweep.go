package aws

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// sweepEvery is how often what nobody needs is looked for.
	sweepEvery = 10 * time.Minute
	// sweepAnew is the pause after which another process may have used what this one believes idle.
	sweepAnew = 2 * sweepEvery
)

// sweeps remembers the last sweep.
type sweeps struct {
	mu   sync.Mutex
	last time.Time
}

// begin says whether a sweep is due, and whether so much time passed since the last one that what is known of use is old.
func (s *sweeps) begin(now time.Time) (due, anew bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.last.IsZero() && now.Sub(s.last) < sweepEvery {
		return false, false
	}
	anew = now.Sub(s.last) > sweepAnew
	s.last = now
	return true, anew
}

// again has the next call sweep.
func (s *sweeps) again() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = s.last.Add(-sweepEvery)
}

// Sweep implements cloud.Cloud. The first one of a process learns which launch templates there are, so that they are used again.
func (c *Cloud) Sweep(ctx context.Context) error {
	due, anew := c.swept.begin(time.Now())
	if !due {
		return nil
	}
	if anew {
		c.templates.touch()
		c.profileUse.touch()
	}
	err := errors.Join(c.sweepTemplates(ctx), c.sweepProfiles(ctx))
	if err != nil {
		c.swept.again()
	}
	return err
}
