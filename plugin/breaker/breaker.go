// Package breaker switches a part of slipway off for a while when it fails inside of the scheduler, so that Kubernetes' own code goes on without it.
package breaker

import (
	"sync/atomic"
	"time"

	"k8s.io/klog/v2"
)

// Pause is how long a part is off.
const Pause = 10 * time.Minute

// Breaker runs one part. It is safe for concurrent use.
type Breaker struct {
	// Name of the part.
	Name string
	// Tripped is called when the part is switched off, with what it panicked with or was found to do wrong. Required.
	Tripped func(name string, cause any)

	// until is when the part is run again, in nanoseconds since the epoch.
	until atomic.Int64
}

// Do runs f unless the part is off, and reports whether it ran to its end. A panic of f switches the part off.
func (b *Breaker) Do(logger klog.Logger, f func()) (ran bool) {
	if until := b.until.Load(); until != 0 {
		if time.Now().UnixNano() < until {
			return false
		}
		b.until.Store(0)
	}
	defer func() {
		if cause := recover(); cause != nil {
			b.Trip(logger, cause)
		}
	}()
	f()
	return true
}

// Trip switches the part off. It must not panic itself: it runs while a panic is being recovered.
func (b *Breaker) Trip(logger klog.Logger, cause any) {
	defer func() {
		if again := recover(); again != nil {
			logger.Error(nil, "Reporting that a part of slipway is off panicked", "part", b.Name, "panic", again)
		}
	}()
	b.until.Store(time.Now().Add(Pause).UnixNano())
	logger.Error(nil, "A part of slipway failed and is off for a while", "part", b.Name, "cause", cause, "pause", Pause)
	b.Tripped(b.Name, cause)
}
