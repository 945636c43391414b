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
	DefaultIdle        = time.Second
	DefaultMax         = 10 * time.Second
	DefaultGangTimeout = 30 * time.Second
)

// patience is for how many idle windows a batch waits for pods that exist and have not been tried. Something other than the
// length of the queue may hold them up.
const patience = 3

// Config holds the windows.
type Config struct {
	// Idle is how long an incomplete batch waits for its next event; zero means DefaultIdle.
	Idle time.Duration
	// Max is how long a batch stays open after its first pod. It is twice as long while existing pods are still being tried. Zero
	// means DefaultMax.
	Max time.Duration
	// GangTimeout is how long the pods of a gang wait for the missing ones; zero means DefaultGangTimeout.
	GangTimeout time.Duration
}

// Kind is the kind of an owner, as far as it decides whether the number of its pods is known.
type Kind int

// These kinds of owners state how many pods they want.
const (
	// Other owners are never known to be complete.
	Other Kind = iota
	// ReplicaSet wants its spec.replicas.
	ReplicaSet
	// StatefulSet wants its spec.replicas, one after the other unless it is Parallel.
	StatefulSet
	// Job wants its parallelism, or the rest of its completions.
	Job
)

// KindOf returns the kind of a controller from the kind in an owner reference.
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
	// Class is the pod's class key (plan.ClassKey).
	Class string
	// Owner identifies the pod's controller within the pod's namespace: any pod may name a controller of another one. Empty for a
	// pod without a controller.
	Owner string
	// Gang that the pod belongs to; empty for none.
	Gang string
	// Waited means that the pod has waited for its gang before: it waits again only with one that has not.
	Waited bool
	// Namespace of the pod.
	Namespace string
	// Related means that pod affinity, anti-affinity or topology spread of the pod may be about other pods. The pods of its
	// namespace are then planned together.
	Related bool
}

// Gang describes pods that are placed together or not at all.
type Gang struct {
	// Name is Pod.Gang of its pods.
	Name string
	// Wanted is how many pods make the gang complete; zero if that is not stated.
	Wanted int
	// Existing is how many of the pods have a node, a promise of one, or have been tried.
	Existing int
}

// Owner describes a controller.
type Owner struct {
	// UID is Pod.Owner of its pods.
	UID string
	// Kind of the controller.
	Kind Kind
	// Wanted is how many pods the owner wants in total, Existing how many of them exist. Count a pod only once the scheduling
	// queue has it, or had it. Then all pods have been tried when the owner is complete and the queue has drained.
	Wanted, Existing int
	// Untried is how many of its pods exist that the scheduling queue has not tried yet.
	Untried int
	// OrderedReady means that the owner creates its next pod only when the last one is ready: it creates no more now.
	OrderedReady bool
}

// Reason is why a batch closes.
type Reason string

// The reasons why a batch closes.
const (
	// DrainedAndComplete: the queue has no pod left to try, and every owner has created the pods it wants.
	DrainedAndComplete Reason = "drained-and-complete"
	// Idle: no event for the idle window.
	Idle Reason = "idle"
	// Max: the first pod has waited for the maximum.
	Max Reason = "max"
	// GangTimeout: a gang has waited long enough for its missing pods.
	GangTimeout Reason = "gang-timeout"
)

// Verdict is the answer of Check.
type Verdict struct {
	// Close means that the batch, or a part of it, is to be planned now.
	Close bool
	// Reason is why it closes; empty unless Close.
	Reason Reason
	// Next is when to call Check again if there is no event; zero for an empty batch.
	Next time.Time
	// Waiting describes what an open batch waits for, in the words of a condition message.
	Waiting string
}

// Batch holds the pods collected since the last Take, and those that the last Take left. It is not safe for concurrent use.
type Batch struct {
	config  Config
	pods    map[string]member
	owners  map[string]Owner
	gangs   map[string]waiting
	drained bool
	// events holds the times of the last change in the number of an owner's pods, by UID; event is the last of them.
	events map[string]time.Time
	event  time.Time
	// closing are the UIDs of the part that the last Check closed; nil for all.
	closing []string
}

type member struct {
	Pod
	at time.Time
}

// waiting is a gang with pods in the batch, and when the first of them came that had not waited before; zero if all had.
type waiting struct {
	Gang
	since time.Time
}

// New returns an empty batch. It returns an error for windows that are negative or in the wrong order.
func New(c Config) (*Batch, error) {
	if c.Idle == 0 {
		c.Idle = DefaultIdle
	}
	if c.Max == 0 {
		c.Max = DefaultMax
	}
	if c.GangTimeout == 0 {
		c.GangTimeout = DefaultGangTimeout
	}
	if c.Idle < 0 {
		return nil, fmt.Errorf("batch: idle window %s is negative", c.Idle)
	}
	if c.GangTimeout < 0 {
		return nil, fmt.Errorf("batch: gang timeout %s is negative", c.GangTimeout)
	}
	if c.Max < c.Idle {
		return nil, fmt.Errorf("batch: maximum %s is shorter than the idle window %s", c.Max, c.Idle)
	}
	return &Batch{config: c, pods: map[string]member{}, owners: map[string]Owner{}, gangs: map[string]waiting{}, events: map[string]time.Time{}}, nil
}

// Collect adds an unschedulable pod. A pod that is in the batch stays as it is.
func (b *Batch) Collect(p Pod, now time.Time) {
	if _, ok := b.pods[p.UID]; ok {
		return
	}
	b.pods[p.UID] = member{Pod: p, at: now}
	if p.Gang == "" {
		return
	}
	w, ok := b.gangs[p.Gang]
	if !ok {
		w.Name = p.Gang
	}
	if w.since.IsZero() && !p.Waited {
		w.since = now
	}
	b.gangs[p.Gang] = w
}

// Forget removes a pod that was deleted or has a node.
func (b *Batch) Forget(uid string) {
	delete(b.pods, uid)
}

// SetOwner records the state of a controller. A change in the number of its pods is an event, from which the idle window starts
// again.
func (b *Batch) SetOwner(o Owner, now time.Time) {
	if old, ok := b.owners[o.UID]; ok && old.Existing != o.Existing && b.has(o.UID) && now.After(b.event) {
		b.event, b.events[o.UID] = now, now
	}
	b.owners[o.UID] = o
}

// SetGang records the state of a gang that has pods in the batch.
func (b *Batch) SetGang(g Gang) {
	if w, ok := b.gangs[g.Name]; ok {
		w.Gang = g
		b.gangs[g.Name] = w
	}
}

// SetDrained records whether the scheduling queue has no pod left to try.
func (b *Batch) SetDrained(drained bool) {
	b.drained = drained
}

// Len returns the number of pods in the batch.
func (b *Batch) Len() int { return len(b.pods) }

// Take removes the pods that the last Check closed, or else all, and returns their UIDs, sorted. Pods of gangs that still wait
// stay.
func (b *Batch) Take(now time.Time) []string {
	closing := b.closing
	if b.closing = nil; closing == nil {
		closing = slices.Collect(maps.Keys(b.pods))
	}
	var out []string
	for _, uid := range closing {
		if p, ok := b.pods[uid]; ok && b.Lacking(p.Gang, now) == 0 {
			out = append(out, uid)
			delete(b.pods, uid)
		}
	}
	gangs, owners := map[string]bool{}, map[string]bool{}
	for _, p := range b.pods {
		gangs[p.Gang], owners[p.Owner] = true, true
	}
	maps.DeleteFunc(b.gangs, func(name string, _ waiting) bool { return !gangs[name] })
	maps.DeleteFunc(b.owners, func(uid string, _ Owner) bool { return !owners[uid] })
	maps.DeleteFunc(b.events, func(uid string, _ time.Time) bool { return !owners[uid] })
	slices.Sort(out)
	return out
}

// Lacking returns how many pods a gang still waits for; 0 if it is complete or has waited long enough.
func (b *Batch) Lacking(gang string, now time.Time) int {
	w, ok := b.gangs[gang]
	if !ok || !now.Before(w.since.Add(b.config.GangTimeout)) {
		return 0
	}
	return max(0, w.Wanted-w.Existing)
}

// Check returns whether the batch, or a part of it, closes now. Pods of an owner that does not state how many pods it wants hold
// up no other pods.
func (b *Batch) Check(now time.Time) Verdict {
	b.closing = nil
	if len(b.pods) == 0 {
		return Verdict{Waiting: "for a pod"}
	}
	s := b.sum(now)
	if s.pods == 0 {
		return Verdict{Next: s.gangsUntil, Waiting: strings.Join(s.lacking, ", ")}
	}
	if b.drained && len(s.incomplete) == 0 {
		reason := DrainedAndComplete
		if s.overdue {
			reason = GangTimeout
		}
		return Verdict{Close: true, Reason: reason}
	}
	if b.drained {
		return b.checkSets(now, s)
	}
	at, reason := b.window(s.first, s.last, s.untried, now)
	if !now.Before(at) {
		return Verdict{Close: true, Reason: reason}
	}
	if !s.gangsUntil.IsZero() && s.gangsUntil.Before(at) {
		at = s.gangsUntil
	}
	return Verdict{Next: at, Waiting: s.waiting("for the scheduling queue to drain")}
}

// waiting describes what the pods wait for, with the given texts at the end.
func (s *sum) waiting(more ...string) string {
	return strings.Join(slices.Concat(s.incomplete, s.lacking, more), ", ")
}

// sum describes a batch at one time.
type sum struct {
	// pods is the number of pods that wait for no gang. first and last are the times of the first and the last event about them.
	pods        int
	first, last time.Time
	// incomplete describes the owners of these pods that may create more, lacking the gangs that wait.
	incomplete, lacking []string
	// untried means that an owner has pods that the scheduling queue has not tried yet.
	untried bool
	// gangsUntil is when the first of the gangs has waited long enough. overdue means that one has.
	gangsUntil time.Time
	overdue    bool
}

func (b *Batch) sum(now time.Time) sum {
	out := sum{last: b.event}
	b.sumGangs(&out, now)
	owners := map[string]bool{}
	for _, p := range b.pods {
		if len(out.lacking) > 0 && b.Lacking(p.Gang, now) > 0 {
			continue
		}
		if out.pods++; out.pods == 1 || p.at.Before(out.first) {
			out.first = p.at
		}
		if p.at.After(out.last) {
			out.last = p.at
		}
		if p.Owner != "" {
			owners[p.Owner] = true
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(owners)) {
		if why := b.incomplete(uid); why != "" {
			out.incomplete = append(out.incomplete, why)
		}
		out.untried = out.untried || b.owners[uid].Untried > 0
	}
	return out
}

func (b *Batch) sumGangs(out *sum, now time.Time) {
	for _, name := range slices.Sorted(maps.Keys(b.gangs)) {
		w := b.gangs[name]
		n, until := b.Lacking(name, now), w.since.Add(b.config.GangTimeout)
		if n == 0 {
			out.overdue = out.overdue || w.Existing < w.Wanted
			continue
		}
		out.lacking = append(out.lacking, fmt.Sprintf("for %d more of gang %s", n, name))
		if out.gangsUntil.IsZero() || until.Before(out.gangsUntil) {
			out.gangsUntil = until
		}
	}
}

// incomplete describes what an owner may still create; empty for nothing.
func (b *Batch) incomplete(uid string) string {
	o, known := b.owners[uid]
	switch {
	case !known:
		return fmt.Sprintf("for what owner %s wants", uid)
	case o.Kind == Other:
		return fmt.Sprintf("for more pods of owner %s", uid)
	case o.OrderedReady || o.Existing >= o.Wanted:
		return ""
	}
	return fmt.Sprintf("for %d more of owner %s", o.Wanted-o.Existing, uid)
}

func (b *Batch) has(owner string) bool {
	return b.any(func(p Pod) bool { return p.Owner == owner })
}

func (b *Batch) any(match func(Pod) bool) bool {
	for _, p := range b.pods {
		if match(p.Pod) {
			return true
		}
	}
	return false
}
