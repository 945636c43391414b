package aws

import (
	"slices"
	"sync"
)

// maxCalls is how many of the latest calls are remembered.
const maxCalls = 100_000

// callLog remembers the calls in the order of arrival.
type callLog struct {
	mu    sync.Mutex
	calls []*Call
}

func (l *callLog) add(c Call) *Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.calls) >= maxCalls {
		l.calls = slices.Clone(l.calls[len(l.calls)-maxCalls/2:])
	}
	added := &c
	l.calls = append(l.calls, added)
	return added
}

func (l *callLog) update(c *Call, change func(*Call)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(c)
}

func (l *callLog) list() []Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := make([]Call, 0, len(l.calls))
	for _, c := range l.calls {
		out = append(out, *c)
	}
	return out
}
