package calm

import (
	"sync"
	"time"
)

// Begun are the evictions of moves whose nodes are being deleted, until they are counted. Each move adds its own in its goroutine. The zero value has none.
type Begun struct {
	mu   sync.Mutex
	list []begun
}

// begun are how many pods a move evicts from the nodes of each NodePool, and since when.
type begun struct {
	of map[string]int
	at time.Time
}

// Add adds the evictions of a move from the nodes of each NodePool.
func (b *Begun) Add(of map[string]int, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = append(b.list, begun{of: of, at: now})
}

// Count counts in e what was added since the last call.
func (b *Begun) Count(e Evictions) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, m := range b.list {
		for pool, n := range m.of {
			e.Count(pool, n, m.at)
		}
	}
	b.list = nil
}
