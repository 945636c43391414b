package plugin

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// entry is a pod that no node takes.
type entry struct {
	pod *corev1.Pod
	// at is when it was collected first.
	at time.Time
	// nominated is the pod's nominatedNodeName when it was collected.
	nominated string
	// noNodes says that the cluster had no node at all.
	noNodes bool
	// verdict is the scheduler's message about the nodes that exist; empty where it is not known.
	verdict string
}

// collector takes pods from the scheduling goroutine to the planner's. Its lock is held for moments only.
type collector struct {
	wake chan struct{}

	mu      sync.Mutex
	entries map[types.UID]entry
	order   []types.UID
	drained bool
	// held says that the planner has taken pods whose batch is still open.
	held bool
}

func newCollector() *collector {
	return &collector{wake: make(chan struct{}, 1), entries: map[types.UID]entry{}}
}

// add notes the pod; one that is noted already keeps its place and its time.
func (c *collector) add(e entry) {
	uid := e.pod.UID
	c.mu.Lock()
	if old, ok := c.entries[uid]; ok {
		e.at = old.at
	} else {
		c.order = append(c.order, uid)
	}
	c.entries[uid] = e
	c.drained = false
	c.mu.Unlock()
	c.notify()
}

// verdict keeps what the scheduler says about the nodes that exist, and reports whether the pod is noted.
func (c *collector) verdict(uid types.UID, message string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[uid]
	if ok {
		e.verdict = message
		c.entries[uid] = e
	}
	return ok
}

// remove forgets the pod: it preempts instead.
func (c *collector) remove(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.entries[uid]; ok {
		delete(c.entries, uid)
		c.order = slices.DeleteFunc(c.order, func(u types.UID) bool { return u == uid })
	}
}

// open says whether there is a batch that waits for the queue to drain.
func (c *collector) open() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return (c.held || len(c.order) > 0) && !c.drained
}

// drain says that the scheduling queue is empty now.
func (c *collector) drain() {
	c.mu.Lock()
	c.drained = true
	c.mu.Unlock()
	c.notify()
}

// take hands over all noted pods, in the order they came.
func (c *collector) take() []entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]entry, 0, len(c.order))
	for _, uid := range c.order {
		out = append(out, c.entries[uid])
	}
	clear(c.entries)
	c.order = c.order[:0]
	return out
}

// hold records whether the planner's batch is open, and returns whether the queue has drained since the last pod came.
func (c *collector) hold(open bool) (drained bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = open
	return c.drained && len(c.order) == 0
}

func (c *collector) notify() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}
