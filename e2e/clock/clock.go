// Package clock makes simulated time pass faster than the wall clock's: what a cloud or a machine takes its time for is
// divided by one speed. It has no goroutines, and a Clock may be used concurrently.
package clock

import (
	"context"
	"time"
)

// Clock turns simulated durations into real ones.
type Clock struct{ speed float64 }

// New returns a clock of the given speed; one that is not positive is 1, real time.
func New(speed float64) *Clock {
	if speed <= 0 {
		speed = 1
	}
	return &Clock{speed: speed}
}

// Speed is how many simulated seconds pass in a real one.
func (c *Clock) Speed() float64 { return c.speed }

// Scale returns how long the simulated duration really takes.
func (c *Clock) Scale(d time.Duration) time.Duration { return time.Duration(float64(d) / c.speed) }

// Elapsed returns how much simulated time passes in the real duration.
func (c *Clock) Elapsed(d time.Duration) time.Duration { return time.Duration(float64(d) * c.speed) }

// After sends the time once the simulated duration has passed.
func (c *Clock) After(d time.Duration) <-chan time.Time { return time.After(c.Scale(d)) }

// Sleep waits for the simulated duration, or until ctx ends: its error is returned then.
func (c *Clock) Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(c.Scale(d))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
