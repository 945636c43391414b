package instance

import (
	"context"
	"sync"
)

// Holds keep machines from starting their kubelets, by NodePool, so that what comes before that can take as long as it takes.
// The zero value holds none, and a nil pointer neither. It is safe for concurrent use.
type Holds struct {
	mu    sync.Mutex
	pools map[string]chan struct{}
}

// Hold keeps every machine of the NodePool that has not started its kubelet, and those that come, until release is called, once
// or more often.
func (h *Holds) Hold(nodePool string) (release func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pools == nil {
		h.pools = map[string]chan struct{}{}
	}
	held := make(chan struct{})
	h.pools[nodePool] = held
	return sync.OnceFunc(func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		close(held)
		if h.pools[nodePool] == held {
			delete(h.pools, nodePool)
		}
	})
}

// Wait returns once no hold on the machines of the NodePool is left, or when ctx ends.
func (h *Holds) Wait(ctx context.Context, nodePool string) {
	for ctx.Err() == nil {
		held := h.of(nodePool)
		if held == nil {
			return
		}
		select {
		case <-held:
		case <-ctx.Done():
		}
	}
}

// Held reports whether a hold on the machines of the NodePool is left.
func (h *Holds) Held(nodePool string) bool { return h.of(nodePool) != nil }

// of is closed when the hold of the NodePool ends; nil where there is none.
func (h *Holds) of(nodePool string) <-chan struct{} {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pools[nodePool]
}
