package aws

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// agenda holds future actions. One goroutine runs them, in the order of their times. An action must not block.
type agenda struct {
	mu    sync.Mutex
	queue appointments
	count int
	wake  chan struct{}
}

type appointment struct {
	at    time.Time
	count int // the order of those at the same time
	do    func()
}

func newAgenda() *agenda { return &agenda{wake: make(chan struct{}, 1)} }

func (a *agenda) add(at time.Time, do func()) {
	a.mu.Lock()
	a.count++
	heap.Push(&a.queue, appointment{at, a.count, do})
	a.mu.Unlock()
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// run runs the actions when they are due, until ctx ends.
func (a *agenda) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.wake:
		case <-timer.C:
		}
		next, ok := a.doDue(ctx)
		if ok {
			timer.Reset(time.Until(next))
		}
	}
}

// doDue runs all actions that are due, and returns when the next one is.
func (a *agenda) doDue(ctx context.Context) (next time.Time, ok bool) {
	for ctx.Err() == nil {
		a.mu.Lock()
		if len(a.queue) == 0 {
			a.mu.Unlock()
			return time.Time{}, false
		}
		first := a.queue[0]
		if first.at.After(time.Now()) {
			a.mu.Unlock()
			return first.at, true
		}
		heap.Pop(&a.queue)
		a.mu.Unlock()
		first.do()
	}
	return time.Time{}, false
}

type appointments []appointment

// Len implements heap.Interface.
func (q appointments) Len() int { return len(q) }

// Less implements heap.Interface.
func (q appointments) Less(i, j int) bool {
	if q[i].at.Equal(q[j].at) {
		return q[i].count < q[j].count
	}
	return q[i].at.Before(q[j].at)
}

// Swap implements heap.Interface.
func (q appointments) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *appointments) Push(x any) {
	if a, ok := x.(appointment); ok {
		*q = append(*q, a)
	}
}

// Pop implements heap.Interface.
func (q *appointments) Pop() any {
	last := len(*q) - 1
	out := (*q)[last]
	*q = (*q)[:last]
	return out
}
