package aws

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	// retention is how long a message is kept, as in Karpenter's template of the interruption queue.
	retention = 300 * time.Second
	// visibility is how long a received message is hidden, unless the call or the queue sets another time.
	visibility = 30 * time.Second
)

// message is a message in a queue.
type message struct {
	id, body, receipt string
	sent, first       time.Time
	visible           time.Time
	received          int
}

// queue is a standard queue of SQS: order is mostly kept, and messages are delivered at least once.
type queue struct {
	name       string
	created    time.Time
	attributes map[string]string

	mu       sync.Mutex
	messages []*message
	// changed is closed and replaced whenever there may be something to receive.
	changed chan struct{}
}

// queues holds all queues of the account.
type queues struct {
	mu     sync.Mutex
	byName map[string]*queue
	dice   *dice
}

func newQueues(d *dice) *queues { return &queues{byName: map[string]*queue{}, dice: d} }

// create returns the queue of that name, which it creates if it does not exist.
func (q *queues) create(name string, attributes map[string]string) (created *queue, existed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if old, ok := q.byName[name]; ok {
		return old, true
	}
	created = &queue{name: name, created: time.Now(), attributes: maps.Clone(attributes), changed: make(chan struct{})}
	q.byName[name] = created
	return created, false
}

func (q *queues) get(name string) (*queue, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	found, ok := q.byName[name]
	return found, ok
}

func (q *queues) delete(name string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	_, ok := q.byName[name]
	delete(q.byName, name)
	return ok
}

// seconds reads an attribute in seconds.
func (q *queue) seconds(name string, absent time.Duration) time.Duration {
	n, err := strconv.Atoi(q.attributes[name])
	if err != nil {
		return absent
	}
	return time.Duration(n) * time.Second
}

func (q *queue) send(id, body string, delay time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	q.messages = append(q.messages, &message{id: id, body: body, sent: now, visible: now.Add(delay)})
	close(q.changed)
	q.changed = make(chan struct{})
}

// receive returns up to n visible messages and hides them. If there is none, it waits for one until the time is over.
func (q *queue) receive(ctx context.Context, n int, wait, hide time.Duration, receipt func() string) []message {
	deadline := time.NewTimer(wait)
	defer deadline.Stop()
	for {
		got, changed, next := q.take(n, hide, receipt)
		if len(got) > 0 || wait <= 0 {
			return got
		}
		again := time.NewTimer(time.Until(next))
		select {
		case <-ctx.Done():
			again.Stop()
			return nil
		case <-deadline.C:
			again.Stop()
			return nil
		case <-changed:
			again.Stop()
		case <-again.C:
		}
	}
}

// take returns what can be received now, a channel that is closed when there may be more, and when the next hidden message
// becomes visible.
func (q *queue) take(n int, hide time.Duration, receipt func() string) (got []message, changed <-chan struct{}, next time.Time) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	q.expire(now)
	next = now.Add(time.Hour)
	for _, m := range q.messages {
		if m.visible.After(now) {
			if m.visible.Before(next) {
				next = m.visible
			}
			continue
		}
		if len(got) == n {
			break
		}
		m.received++
		if m.received == 1 {
			m.first = now
		}
		m.receipt, m.visible = receipt(), now.Add(hide)
		got = append(got, *m)
	}
	return got, q.changed, next
}

// expire drops messages older than the retention. The caller holds q.mu.
func (q *queue) expire(now time.Time) {
	keep := q.seconds("MessageRetentionPeriod", retention)
	q.messages = slices.DeleteFunc(q.messages, func(m *message) bool { return now.Sub(m.sent) > keep })
}

// remove deletes the message of a receipt. As in SQS, a deleted one is no error.
func (q *queue) remove(receipt string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.messages = slices.DeleteFunc(q.messages, func(m *message) bool { return m.receipt == receipt })
}

func (q *queue) purge() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.messages = nil
}

// count returns how many messages can be received, how many were and are hidden, and how many are delayed.
func (q *queue) count() (visible, hidden, delayed int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	q.expire(now)
	for _, m := range q.messages {
		switch {
		case !m.visible.After(now):
			visible++
		case m.received > 0:
			hidden++
		default:
			delayed++
		}
	}
	return visible, hidden, delayed
}

// hide hides a received message for some time.
func (q *queue) hide(receipt string, d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range q.messages {
		if m.receipt == receipt {
			m.visible = time.Now().Add(d)
		}
	}
	close(q.changed)
	q.changed = make(chan struct{})
}

// names lists the queues.
func (q *queues) names() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Sorted(maps.Keys(q.byName))
}
