package aws

import (
	"context"
	"sync"
	"time"
)

// cached keeps values for a period by key. Two callers that miss at the same moment both load the value; the later answer is kept.
type cached[V any] struct {
	period time.Duration
	// part names the cached data in logs and metrics. refreshed records each answer and each failure. Without them an expired value is
	// dropped; with them it stays in use for up to staleFor while AWS cannot be reached.
	part      string
	refreshed func(part string, err error) error

	mu      sync.Mutex
	entries map[string]cacheEntry[V]
}

type cacheEntry[V any] struct {
	value V
	// until is when the value is loaded again; answeredAt is when AWS returned it.
	until, answeredAt time.Time
}

const (
	// staleFor is how long an expired value stays in use while AWS cannot be reached.
	staleFor = 24 * time.Hour
	// staleRetry is the pause before AWS is asked again for an expired value.
	staleRetry = 5 * time.Second
)

func newCached[V any](period time.Duration) *cached[V] {
	return &cached[V]{period: period, entries: map[string]cacheEntry[V]{}}
}

// newKept returns a cache that keeps its last answer while AWS cannot be reached.
func newKept[V any](period time.Duration, part string, m *metrics) *cached[V] {
	m.refreshFails.WithLabelValues(part)
	c := newCached[V](period)
	c.part, c.refreshed = part, m.refreshed
	return c
}

// get returns the cached value of key, or else what load returns. Errors are not cached.
func (c *cached[V]) get(ctx context.Context, key string, load func(context.Context) (V, error)) (V, error) {
	if v, ok := c.peek(key); ok {
		return v, nil
	}
	v, err := load(ctx)
	if c.refreshed != nil {
		err = c.refreshed(c.part, err)
	}
	if err == nil {
		c.put(key, v, c.period)
		return v, nil
	}
	if last, ok := c.last(key, err); ok && ctx.Err() == nil {
		return last, nil
	}
	return v, err
}

// last returns the last answer if err is transient and the answer is younger than staleFor.
func (c *cached[V]) last(key string, err error) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	e, ok := c.entries[key]
	if !ok || c.refreshed == nil || !isTransient(err) || now.After(e.answeredAt.Add(staleFor)) {
		return e.value, false
	}
	e.until = now.Add(min(c.period, staleRetry))
	c.entries[key] = e
	return e.value, true
}

// latest returns the last answer, however old.
func (c *cached[V]) latest(key string) V {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entries[key].value
}

func (c *cached[V]) peek(key string) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key]
	return e.value, ok && time.Now().Before(e.until)
}

// put stores a value and drops all that have expired.
func (c *cached[V]) put(key string, v V, period time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for k, e := range c.entries {
		if now.After(e.until) && (c.refreshed == nil || now.After(e.answeredAt.Add(staleFor))) {
			delete(c.entries, k)
		}
	}
	c.entries[key] = cacheEntry[V]{value: v, until: now.Add(period), answeredAt: now}
}

func (c *cached[V]) forget(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, key)
}

// signal notifies any number of waiters of a change.
type signal struct {
	mu sync.Mutex
	ch chan struct{}
}

func newSignal() *signal { return &signal{ch: make(chan struct{})} }

// wait returns a channel that the next fire closes.
func (s *signal) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ch
}

func (s *signal) fire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.ch)
	s.ch = make(chan struct{})
}
