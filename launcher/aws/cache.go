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

	mu      sync.Mutex
	entries map[string]cacheEntry[V]
}

type cacheEntry[V any] struct {
	value V
	until time.Time
}

func newCached[V any](period time.Duration) *cached[V] {
	return &cached[V]{period: period, entries: map[string]cacheEntry[V]{}}
}

// get returns what is remembered for key, or what load returns; errors are not remembered.
func (c *cached[V]) get(ctx context.Context, key string, load func(context.Context) (V, error)) (V, error) {
	if v, ok := c.peek(key); ok {
		return v, nil
	}
	v, err := load(ctx)
	if err != nil {
		return v, err
	}
	c.put(key, v, c.period)
	return v, nil
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
		if now.After(e.until) {
			delete(c.entries, k)
		}
	}
	c.entries[key] = cacheEntry[V]{value: v, until: now.Add(period)}
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
