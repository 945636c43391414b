package aws

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// sweepEvery is the period of the search for unused resources.
	sweepEvery = 10 * time.Minute
	// useOutdated is the pause after which another process may have used a resource that this process considers idle.
	useOutdated = 2 * sweepEvery
)

// sweeps records the last sweep.
type sweeps struct {
	mu   sync.Mutex
	last time.Time
}

// begin reports whether a sweep is due, and whether the last one is so long ago that the recorded uses are out of date.
func (s *sweeps) begin(now time.Time) (due, outdated bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.last.IsZero() && now.Sub(s.last) < sweepEvery {
		return false, false
	}
	outdated = now.Sub(s.last) > useOutdated
	s.last = now
	return true, outdated
}

// again makes the next call sweep.
func (s *sweeps) again() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = s.last.Add(-sweepEvery)
}

// Sweep implements cloud.Cloud. The first sweep of a process reads the existing launch templates, so that they are used again.
func (c *Cloud) Sweep(ctx context.Context) error {
	due, outdated := c.swept.begin(time.Now())
	if !due {
		return nil
	}
	if outdated {
		c.templates.touch()
		c.profileUse.touch()
	}
	err := errors.Join(c.sweepTemplates(ctx), c.sweepProfiles(ctx))
	if err != nil {
		c.swept.again()
	}
	return err
}
