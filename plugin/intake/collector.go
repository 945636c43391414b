package intake

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// cycleAtMost is how long a pod waits for the end of its scheduling cycle. A tripped hook does not report the end.
const cycleAtMost = time.Second

// Collector hands pods from the scheduling goroutine to the planner's. It is safe for concurrent use, and holds its lock for
// microseconds only.
//
// A pod that is collected in the middle of its scheduling cycle is handed over when the cycle is over. Only then are the
// scheduler's verdict on it known and whether it preempts.
type Collector struct {
	wake chan struct{}

	mu      sync.Mutex
	entries map[types.UID]Entry
	order   []types.UID
	drained bool
	// noted counts the pods that were collected.
	noted int
	// cycle is the pod that was collected in the current scheduling cycle, since is when. It is empty if the cycle is over.
	cycle types.UID
	since time.Time
	// held means that the planner has taken pods whose batch is still open.
	held bool
}

// NewCollector returns an empty Collector.
func NewCollector() *Collector {
	return &Collector{wake: make(chan struct{}, 1), entries: map[types.UID]Entry{}}
}

// AddInCycle collects a pod whose scheduling cycle goes on. Verdict, Remove, the next pod or a drained queue ends the cycle.
func (c *Collector) AddInCycle(e Entry) {
	c.note(e, e.Pod.UID)
}

// Add collects the pod. A pod that is collected already keeps its place and its time.
func (c *Collector) Add(e Entry) {
	c.note(e, "")
}

func (c *Collector) note(e Entry, cycle types.UID) {
	uid := e.Pod.UID
	c.mu.Lock()
	if cycle != "" {
		c.cycle, c.since = cycle, e.At
	}
	if old, ok := c.entries[uid]; ok {
		e.At = old.At
	} else {
		c.order = append(c.order, uid)
	}
	c.entries[uid] = e
	c.drained = false
	c.noted++
	c.mu.Unlock()
	c.Notify()
}

// Verdict stores the scheduler's message about the existing nodes and ends the pod's cycle. It reports whether the pod is
// collected.
func (c *Collector) Verdict(uid types.UID, message string) bool {
	c.mu.Lock()
	e, ok := c.entries[uid]
	if ok {
		e.Verdict = message
		c.entries[uid] = e
	}
	if c.cycle == uid {
		c.cycle = ""
	}
	c.mu.Unlock()
	if ok {
		c.Notify()
	}
	return ok
}

// Remove removes the pod, which preempts instead.
func (c *Collector) Remove(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cycle == uid {
		c.cycle = ""
	}
	if _, ok := c.entries[uid]; ok {
		delete(c.entries, uid)
		c.order = slices.DeleteFunc(c.order, func(u types.UID) bool { return u == uid })
	}
}

// Open reports whether there is a batch that waits for the queue to drain.
func (c *Collector) Open() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return (c.held || len(c.order) > 0) && !c.drained
}

// Drain records that the scheduling queue is empty now.
func (c *Collector) Drain() {
	c.mu.Lock()
	c.drained, c.cycle = true, ""
	c.mu.Unlock()
	c.Notify()
}

// Take returns the collected pods in the order in which they came, without a pod in the current scheduling cycle.
func (c *Collector) Take(now time.Time) []Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]Entry, 0, len(c.order))
	var left []types.UID
	for _, uid := range c.order {
		if uid == c.cycle && now.Sub(c.since) < cycleAtMost {
			left = append(left, uid)
			continue
		}
		out = append(out, c.entries[uid])
		delete(c.entries, uid)
	}
	c.order = append(c.order[:0], left...)
	// The batch counts as open until the planner calls hold: a queue that drains in between must be noticed.
	c.held = c.held || len(out) > 0
	return out
}

// hold records whether the planner's batch is open, and returns whether the queue has drained since the last pod came.
func (c *Collector) hold(open bool) (drained bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = open
	return c.drained && len(c.order) == 0
}

// settle asks whether the queue is idle, and returns whether it has drained since the last pod came. Drain is not called for a pod that is collected
// outside of the scheduling goroutine while that waits for the next pod.
func (c *Collector) settle(idle func() bool) (drained bool) {
	c.mu.Lock()
	before := c.noted
	c.mu.Unlock()
	if !idle() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.noted == before {
		c.drained, c.cycle = true, ""
	}
	return c.drained && len(c.order) == 0
}

// Wake returns a channel that receives a value after Notify and after each change that concerns the planner.
func (c *Collector) Wake() <-chan struct{} { return c.wake }

// Notify wakes the planner.
func (c *Collector) Notify() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}
