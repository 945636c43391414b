package aws

import (
	"context"
	"sync"
	"time"
)

// gather is how long a call waits for others of its kind. It is long enough for the requests of one wave of nodes, and too short to delay a
// launch noticeably.
const gather = 20 * time.Millisecond

// merger combines requests of one kind that arrive within a moment into one call, because EC2 limits the number of calls. Every caller gets
// the answer of that call.
type merger[Q, A any] struct {
	// window is how long the first request waits for others.
	window time.Duration
	// call makes the call. Its context ends when all its callers have given up.
	call func(ctx context.Context, requests []Q) (A, error)

	mu   sync.Mutex
	next *merged[Q, A]
}

// merged is one call, pending or done.
type merged[Q, A any] struct {
	requests []Q
	waiting  int
	cancel   context.CancelFunc
	done     chan struct{}
	answer   A
	err      error
}

func newMerger[Q, A any](window time.Duration, call func(context.Context, []Q) (A, error)) *merger[Q, A] {
	return &merger[Q, A]{window: window, call: call}
}

// do adds the request to the next call and waits for its answer.
func (m *merger[Q, A]) do(ctx context.Context, request Q) (A, error) {
	var none A
	if err := ctx.Err(); err != nil {
		return none, err
	}
	m.mu.Lock()
	b := m.next
	if b == nil {
		callCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
		b = &merged[Q, A]{cancel: cancel, done: make(chan struct{})}
		m.next = b
		go m.run(callCtx, b)
	}
	b.requests = append(b.requests, request)
	b.waiting++
	m.mu.Unlock()
	select {
	case <-b.done:
		return b.answer, b.err
	case <-ctx.Done():
		m.mu.Lock()
		defer m.mu.Unlock()
		if b.waiting--; b.waiting == 0 {
			b.cancel()
			if m.next == b {
				m.next = nil // No request may join a call that was given up.
			}
		}
		return none, ctx.Err()
	}
}

func (m *merger[Q, A]) run(ctx context.Context, b *merged[Q, A]) {
	defer close(b.done)
	defer b.cancel()
	timer := time.NewTimer(m.window)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	m.mu.Lock()
	if m.next == b {
		m.next = nil
	}
	m.mu.Unlock()
	if b.err = ctx.Err(); b.err == nil {
		b.answer, b.err = m.call(ctx, b.requests)
	}
}
