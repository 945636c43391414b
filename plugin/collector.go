package plugin

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/plugin/plan"
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
	// class is the pod's (plan.ClassKey), gang its gang, once the planner has taken it.
	class string
	gang  plan.Gang
	// hopeless says that a plan has found nothing for the pod.
	hopeless bool
	// room is when a pod was last seen to end whose room it gets; zero for none.
	room time.Time
	// refusal is what the scheduler says of the node that was launched for the pod; empty for none.
	refusal string
	// verdict is the scheduler's message about the nodes that exist; empty where it is not known.
	verdict string
}

// cycleAtMost is how long a scheduling cycle is waited for whose end nobody tells, because a hook is tripped.
const cycleAtMost = time.Second

// collector takes pods from the scheduling goroutine to the planner's. Its lock is held for moments only.
//
// A pod that is collected in the middle of its scheduling cycle is handed over when the cycle is over: only then it is
// known what the scheduler says of it, and that it does not preempt.
type collector struct {
	wake chan struct{}

	mu      sync.Mutex
	entries map[types.UID]entry
	order   []types.UID
	drained bool
	// cycle is the pod that was collected in the cycle under way, since when; empty where the cycle is over.
	cycle types.UID
	since time.Time
	// held says that the planner has taken pods whose batch is still open.
	held bool
}

func newCollector() *collector {
	return &collector{wake: make(chan struct{}, 1), entries: map[types.UID]entry{}}
}

// addInCycle notes a pod whose scheduling cycle goes on: verdict, remove, the next pod or a drained queue ends it.
func (c *collector) addInCycle(e entry) {
	c.note(e, e.pod.UID)
}

// add notes the pod; one that is noted already keeps its place and its time.
func (c *collector) add(e entry) {
	c.note(e, "")
}

func (c *collector) note(e entry, cycle types.UID) {
	uid := e.pod.UID
	c.mu.Lock()
	if cycle != "" {
		c.cycle, c.since = cycle, e.at
	}
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

// verdict keeps what the scheduler says about the nodes that exist, and reports whether the pod is noted. The pod's cycle
// is over.
func (c *collector) verdict(uid types.UID, message string) bool {
	c.mu.Lock()
	e, ok := c.entries[uid]
	if ok {
		e.verdict = message
		c.entries[uid] = e
	}
	if c.cycle == uid {
		c.cycle = ""
	}
	c.mu.Unlock()
	if ok {
		c.notify()
	}
	return ok
}

// remove forgets the pod: it preempts instead.
func (c *collector) remove(uid types.UID) {
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

// open says whether there is a batch that waits for the queue to drain.
func (c *collector) open() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return (c.held || len(c.order) > 0) && !c.drained
}

// drain says that the scheduling queue is empty now.
func (c *collector) drain() {
	c.mu.Lock()
	c.drained, c.cycle = true, ""
	c.mu.Unlock()
	c.notify()
}

// take hands over the noted pods, in the order they came: all but the one whose cycle is under way.
func (c *collector) take(now time.Time) []entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]entry, 0, len(c.order))
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
	// Until the planner says otherwise (hold): a queue that drains in between must be noticed.
	c.held = c.held || len(out) > 0
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
