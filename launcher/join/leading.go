package join

import (
	"context"
	"sync"
	"time"

	"github.com/slipway-k8s/slipway/launcher/leadership"
)

// leading notes when this process began to lead.
type leading struct {
	guard leadership.Guard

	mu sync.Mutex
	// began is when it was first seen that it leads, ended is closed when it leads no more; nil before the first time.
	began time.Time
	ended <-chan struct{}
}

// since returns when it was first seen that this process leads: now, if it was not seen before or did not lead meanwhile. ctx is an effect's.
func (l *leading) since(ctx context.Context, now time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.ended:
	default:
		if l.ended != nil {
			return l.began
		}
	}
	tenure, done, leads := l.guard.Context(context.WithoutCancel(ctx))
	if !leads {
		return now // What is decided has no effect.
	}
	context.AfterFunc(tenure, done)
	l.began, l.ended = now, tenure.Done()
	return now
}
