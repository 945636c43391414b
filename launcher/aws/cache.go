package aws

import (
	"context"
	"sync"
	"time"
)

// cached remembers values for a period by key. Two callers that miss at the same moment both ask; the later answer
// stays.
type cached[V any] struct {
	period time.Duration
	// part names what is remembered in logs and metrics, and refreshed takes note of each answer and failure; without them
	// a value whose time is over is forgotten, with them it stays in use for as long as AWS cannot be asked.
	part      string
	refreshed func(part string, err error) error

	mu      sync.Mutex
	entries map[string]cacheEntry[V]
}

type cacheEntry[V any] struct {
	value V
	// until is when the value is asked for again; told is when AWS told it.
	until, told time.Time
}

const (
	// staleFor is how long a value may stay in use that AWS cannot be asked for.
	staleFor = 24 * time.Hour
	// staleRetry is when it is asked for again.
	staleRetry = 5 * time.Second
)

func newCached[V any](period time.Duration) *cached[V] {
	return &cached[V]{period: period, entries: map[string]cacheEntry[V]{}}
}

// newKept is a cache that keeps the last answer while AWS cannot be asked.
func newKept[V any](period time.Duration, part string, m *metrics) *cached[V] {
	m.refreshFails.WithLabelValues(part)
	c := newCached[V](period)
	c.part, c.refreshed = part, m.refreshed
	return c
}

// get returns what is remembered for key, or what load returns; errors are not remembered.
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

// last is the last answer, where the failure is one that passes.
func (c *cached[V]) last(key string, err error) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	e, ok := c.entries[key]
	if !ok || c.refreshed == nil || !isTransient(err) || now.After(e.told.Add(staleFor)) {
		return e.value, false
	}
	e.until = now.Add(min(c.period, staleRetry))
	c.entries[key] = e
	return e.value, true
}

func (c *cached[V]) peek(key string) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key]
	return e.value, ok && time.Now().Before(e.until)
}

// put remembers a value, and forgets all whose time is over.
func (c *cached[V]) put(key string, v V, period time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for k, e := range c.entries {
		if now.After(e.until) && (c.refreshed == nil || now.After(e.told.Add(staleFor))) {
			delete(c.entries, k)
		}
	}
	c.entries[key] = cacheEntry[V]{value: v, until: now.Add(period), told: now}
}

func (c *cached[V]) forget(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, key)
}

// signal tells any number of waiters that something changed.
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
