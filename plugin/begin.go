package plugin

import (
	"sync"
	"time"
)

// beginWithin is how long the first scheduling cycle waits for the launcher. One that lives tells within a fraction of a second; without
// it, the scheduler is kube-scheduler.
const beginWithin = 2 * time.Second

// beginning holds the first scheduling cycle back until the launcher has told what the process before this one promised: without,
// a pod that waits for its node would be placed into the room of another one that does.
type beginning struct {
	once sync.Once
	told chan struct{}
	// over says that the wait is. The scheduling goroutine alone uses it.
	over bool
}

func newBeginning() *beginning { return &beginning{told: make(chan struct{})} }

// know ends the wait: the promises are known.
func (b *beginning) know() { b.once.Do(func() { close(b.told) }) }

// wait waits the first time that it is called.
func (b *beginning) wait() {
	if b.over {
		return
	}
	b.over = true
	timer := time.NewTimer(beginWithin)
	defer timer.Stop()
	select {
	case <-b.told:
	case <-timer.C:
	}
}

// firstStateWithin is how long the launcher's questions wait for its state. It gives up on the most urgent of them after 5 s.
const firstStateWithin = 3 * time.Second

// early says that the launcher's questions have to wait, since nothing can be planned before it has told its state: a scheduler that
// has just started is asked at once, and a move that it refuses is called off for a minute. Without a state for too long they are
// answered all the same, by a refusal.
func (p *planner) early(now time.Time) bool {
	if p.view.Synced() || !p.inbox.asking() {
		p.askedEarly = time.Time{}
		return false
	}
	if p.askedEarly.IsZero() {
		p.askedEarly = now
	}
	return now.Sub(p.askedEarly) < firstStateWithin
}
