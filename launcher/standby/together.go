package standby

import (
	"context"
	"errors"
	"sync"
	"time"
)

// moment is how long a call waits for others of its kind: EC2 allows few calls in a second, and each may name many instances.
const moment = 50 * time.Millisecond

// mostTogether is the number of instances in one call.
const mostTogether = 50

// together makes one call of those that come within a moment. It is safe for concurrent use.
type together[T any] struct {
	// call makes the call, and returns the errors of the instances that were refused, by id.
	call func(ctx context.Context, of []T) map[string]error
	// id returns the id of an instance.
	id func(T) string

	mu   sync.Mutex
	open *round[T]
}

// round is one call. Its errors are set when it is done.
type round[T any] struct {
	of      []T
	done    chan struct{}
	refused map[string]error
	// failed is why the call did not come to its end; nil once it has.
	failed error
}

// errNotMade is what all of a round return whose call panicked.
var errNotMade = errors.New("the call for several instances did not come to its end")

// do makes the call for one instance, together with others, and returns its error. The first one makes it for all: they end with the same leadership.
func (t *together[T]) do(ctx context.Context, one T) error {
	r, first := t.join(one)
	if first {
		t.run(ctx, r)
	}
	select {
	case <-r.done:
		if r.failed != nil {
			return r.failed
		}
		return r.refused[t.id(one)]
	case <-ctx.Done():
		return ctx.Err()
	}
}

// join adds an instance to the round that is open, or to a new one.
func (t *together[T]) join(one T) (r *round[T], first bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if first = t.open == nil; first {
		t.open = &round[T]{done: make(chan struct{}), failed: errNotMade}
	}
	r = t.open
	if r.of = append(r.of, one); len(r.of) == mostTogether {
		t.open = nil
	}
	return r, first
}

// run waits for others, closes the round, and makes its call unless the context has ended.
func (t *together[T]) run(ctx context.Context, r *round[T]) {
	defer close(r.done)
	timer := time.NewTimer(moment)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	t.mu.Lock()
	if t.open == r {
		t.open = nil
	}
	of := r.of
	t.mu.Unlock()
	if err := ctx.Err(); err != nil {
		r.failed = err
		return
	}
	r.refused = t.call(ctx, of)
	r.failed = nil
}
