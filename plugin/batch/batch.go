package batch

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Defaults of Config.
const (
	DefaultIdle = time.Second
	DefaultMax  = 10 * time.Second
)

// Config is the two windows.
type Config struct {
	// Idle is how long a batch that is not complete waits for its next event; zero means DefaultIdle.
	Idle time.Duration
	// Max is how long a batch stays open since its first pod; zero means DefaultMax.
	Max time.Duration
}

// Kind of an owner, as far as it matters for knowing whether all its pods are there.
type Kind int

// The kinds of owners whose wanted number of pods is known.
const (
	// Other owners are never known to be complete.
	Other Kind = iota
	// ReplicaSet wants its spec.replicas.
	ReplicaSet
	// StatefulSet wants its spec.replicas, one after the other unless it is Parallel.
	StatefulSet
	// Job wants its parallelism, or what is left of its completions.
	Job
)

// KindOf is the kind of a controller by the kind of its owner reference.
func KindOf(kind string) Kind {
	switch kind {
	case "ReplicaSet":
		return ReplicaSet
	case "StatefulSet":
		return StatefulSet
	case "Job":
		return Job
	}
	return Other
}

// Pod is an unschedulable pod.
type Pod struct {
	// UID of the pod.
	UID string
	// Class is its class key (plan.ClassKey).
	Class string
	// Owner is the UID of its controller; empty for a pod that has none.
	Owner string
}

// Owner is what is known of a controller.
type Owner struct {
	// UID of the controller.
	UID string
	// Kind of the controller.
	Kind Kind
	// Wanted is how many pods it wants in total, Existing how many of them exist. Count a pod only once the scheduling
	// queue has it, or had it: then an owner that is complete and a queue that has drained mean that all were tried.
	Wanted, Existing int
	// OrderedReady says that it creates its next pod only when the last one is ready: it has no more to create now.
	OrderedReady bool
}

// Reason why a batch closes.
type Reason string

// The reasons.
const (
	// DrainedAndComplete: the queue has no pod left to try, and every owner has created the pods it wants.
	DrainedAndComplete Reason = "drained-and-complete"
	// Idle: no event for the idle window.
	Idle Reason = "idle"
	// Max: the first pod has waited for the maximum.
	Max Reason = "max"
)

// Verdict says what to do with a batch.
type Verdict struct {
	// Close says that the batch is to be planned now, Reason why.
	Close bool
	// Reason is empty unless Close.
	Reason Reason
	// Next is when to ask again without an event; zero for an empty batch.
	Next time.Time
	// Waiting says, for a human, what an open batch waits for.
	Waiting string
}

// Batch is the pods collected since the last Take. It is not safe for concurrent use.
type Batch struct {
	config      Config
	pods        map[string]Pod
	owners      map[string]Owner
	drained     bool
	first, last time.Time
}

// New returns an empty batch; it fails on windows that are negative or in the wrong order.
func New(c Config) (*Batch, error) {
	if c.Idle == 0 {
		c.Idle = DefaultIdle
	}
	if c.Max == 0 {
		c.Max = DefaultMax
	}
	if c.Idle < 0 {
		return nil, fmt.Errorf("batch: idle window %s is negative", c.Idle)
	}
	if c.Max < c.Idle {
		return nil, fmt.Errorf("batch: maximum %s is shorter than the idle window %s", c.Max, c.Idle)
	}
	return &Batch{config: c, pods: map[string]Pod{}, owners: map[string]Owner{}}, nil
}

// Collect adds an unschedulable pod; one that is in the batch already changes nothing.
func (b *Batch) Collect(p Pod, now time.Time) {
	if _, ok := b.pods[p.UID]; ok {
		return
	}
	if len(b.pods) == 0 {
		b.first = now
	}
	b.pods[p.UID] = p
	b.last = now
}

// Forget removes a pod that was deleted or found its node otherwise.
func (b *Batch) Forget(uid string) {
	delete(b.pods, uid)
}

// SetOwner tells what is known of a controller. A change in the number of its pods is an event that the idle window
// starts from again.
func (b *Batch) SetOwner(o Owner, now time.Time) {
	if old, ok := b.owners[o.UID]; ok && old.Existing != o.Existing && b.has(o.UID) && now.After(b.last) {
		b.last = now
	}
	b.owners[o.UID] = o
}

// ForgetOwner removes a controller that is gone: it creates no more pods.
func (b *Batch) ForgetOwner(uid string) {
	b.owners[uid] = Owner{UID: uid, Kind: ReplicaSet}
}

// SetDrained tells whether the scheduling queue has no pod left to try.
func (b *Batch) SetDrained(drained bool) {
	b.drained = drained
}

// Len is the number of pods in the batch.
func (b *Batch) Len() int { return len(b.pods) }

// Pods are the pods in the batch, by UID.
func (b *Batch) Pods() []Pod {
	var out []Pod
	for _, uid := range slices.Sorted(maps.Keys(b.pods)) {
		out = append(out, b.pods[uid])
	}
	return out
}

// Take empties the batch and returns what was in it.
func (b *Batch) Take() []Pod {
	out := b.Pods()
	clear(b.pods)
	clear(b.owners)
	return out
}

// Check says whether the batch closes now.
func (b *Batch) Check(now time.Time) Verdict {
	if len(b.pods) == 0 {
		return Verdict{Waiting: "for a pod"}
	}
	waiting := b.incomplete()
	if b.drained && len(waiting) == 0 {
		return Verdict{Close: true, Reason: DrainedAndComplete}
	}
	most, idle := b.first.Add(b.config.Max), b.last.Add(b.config.Idle)
	switch {
	case !now.Before(most):
		return Verdict{Close: true, Reason: Max}
	case !now.Before(idle):
		return Verdict{Close: true, Reason: Idle}
	}
	next := idle
	if most.Before(idle) {
		next = most
	}
	if !b.drained {
		waiting = append(waiting, "for the scheduling queue to drain")
	}
	return Verdict{Next: next, Waiting: strings.Join(waiting, ", ")}
}

// incomplete names the owners of collected pods that may create more.
func (b *Batch) incomplete() []string {
	var out []string
	seen := map[string]bool{"": true}
	for _, p := range b.Pods() {
		if seen[p.Owner] {
			continue
		}
		seen[p.Owner] = true
		o, known := b.owners[p.Owner]
		switch {
		case !known:
			out = append(out, fmt.Sprintf("for what owner %s wants", p.Owner))
		case o.Kind == Other:
			out = append(out, fmt.Sprintf("for more pods of owner %s", p.Owner))
		case o.OrderedReady || o.Existing >= o.Wanted:
		default:
			out = append(out, fmt.Sprintf("for %d more pods of owner %s", o.Wanted-o.Existing, p.Owner))
		}
	}
	return out
}

func (b *Batch) has(owner string) bool {
	for _, p := range b.pods {
		if p.Owner == owner {
			return true
		}
	}
	return false
}
