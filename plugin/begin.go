package plugin

import (
	"sync"
	"sync/atomic"
	"time"
)

// beginWithin is how long the first scheduling cycle waits for the launcher. A running launcher sends its state within a fraction
// of a second. Without it, the scheduler is kube-scheduler.
const beginWithin = 2 * time.Second

// beginning holds the first scheduling cycle back until the promises of the process before this one are restored. Otherwise a pod
// that waits for its node would be placed into the room of another one that does.
type beginning struct {
	once     sync.Once
	restored chan struct{}
	// over means that the wait is over: scheduling cycles run in this process, so it leads.
	over atomic.Bool
}

func newBeginning() *beginning { return &beginning{restored: make(chan struct{})} }

// restore ends the wait: the promises are restored.
func (b *beginning) restore() { b.once.Do(func() { close(b.restored) }) }

// wait blocks the first scheduling cycle until the promises are restored, for at most beginWithin.
func (b *beginning) wait() {
	if b.over.Load() {
		return
	}
	defer b.over.Store(true)
	timer := time.NewTimer(beginWithin)
	defer timer.Stop()
	select {
	case <-b.restored:
	case <-timer.C:
	}
}
