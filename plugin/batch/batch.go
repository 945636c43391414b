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

// patience is how many idle windows pods are waited for that exist and have not been tried: something else than the queue's length
// may keep them.
const patience = 3

// Config is the windows.
type Config struct {
	// Idle is how long a batch that is not complete waits for its next event; zero means DefaultIdle.
	Idle time.Duration
	// Max is how long a batch stays open since its first pod; twice as long while pods that exist are still being tried.
	// Zero means DefaultMax.
	Max time.Duration
	// GangTimeout is how long the pods of a gang wait for those that it lacks; zero means DefaultGangTimeout.
	GangTimeout time.Duration
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
	// Owner identifies its controller, within its namespace: anybody may name that of another one. Empty for a pod that has none.
	Owner string
	// Gang that the pod belongs to; empty for none.
	Gang string
	// Namespace of the pod.
	Namespace string
	// Related says that pod affinity, anti-affinity or topology spread of the pod may be about others: the pods of its namespace are
	// planned together.
	Related bool
}

// Gang is what is known of pods that are placed together or not at all.
type Gang struct {
	// Name as in Pod.
	Name string
	// Wanted is how many pods make it complete; zero where it does not say.
	Wanted int
	// Existing is how many of them have a node, a promise of one, or have been tried.
	Existing int
}

// Owner is what is known of a controller.
type Owner struct {
	// UID identifies the controller, as Pod.Owner.
	UID string
	// Kind of the controller.
	Kind Kind
	// Wanted is how many pods it wants in total, Existing how many of them exist. Count a pod only once the scheduling
	// queue has it, or had it: then an owner that is complete and a queue that has drained mean that all were tried.
	Wanted, Existing int
	// Untried is how many of its pods exist that the scheduling queue has not tried yet: they come for sure.
	Untried int
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
	// GangTimeout: a gang has waited long enough for the pods that it lacks.
	GangTimeout Reason = "gang-timeout"
)

// Verdict says what to do with a batch.
type Verdict struct {
	// Close says that the batch, or a part of it, is to be planned now, Reason why.
	Close bool
	// Reason is empty unless Close.
	Reason Reason
	// Next is when to ask again without an event; zero for an empty batch.
	Next time.Time
	// Waiting says, for a human, what an open batch waits for.
	Waiting string
}

// Batch is the pods collected since the last Take, and those that the last Take left. It is not safe for concurrent use.
type Batch struct {
	config  Config
	pods    map[string]member
	owners  map[string]Owner
	gangs   map[string]waiting
	drained bool
	// events are when the number of pods of owners changed, by UID, event is the last of them.
	events map[string]time.Time
	event  time.Time
	// closing are the UIDs of the part that the last Check closed; nil for all.
	closing []string
}

type member struct {
	Pod
	at time.Time
}

// waiting is a gang with pods in the batch, since when.
type waiting struct {
	Gang
	since time.Time
}

// New returns an empty batch; it fails on windows that are negative or in the wrong order.
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

// Collect adds an unschedulable pod; one that is in the batch already changes nothing.
func (b *Batch) Collect(p Pod, now time.Time) {
	if _, ok := b.pods[p.UID]; ok {
		return
	}
	b.pods[p.UID] = member{Pod: p, at: now}
	if _, ok := b.gangs[p.Gang]; p.Gang != "" && !ok {
		b.gangs[p.Gang] = waiting{Gang: Gang{Name: p.Gang}, since: now}
	}
}

// Forget removes a pod that was deleted or found its node otherwise.
func (b *Batch) Forget(uid string) {
	delete(b.pods, uid)
}

// SetOwner tells what is known of a controller. A change in the number of its pods is an event that the idle window
// starts from again.
func (b *Batch) SetOwner(o Owner, now time.Time) {
	if old, ok := b.owners[o.UID]; ok && old.Existing != o.Existing && b.has(o.UID) && now.After(b.event) {
		b.event, b.events[o.UID] = now, now
	}
	b.owners[o.UID] = o
}

// SetGang tells what is known of a gang that has pods in the batch.
func (b *Batch) SetGang(g Gang) {
	if w, ok := b.gangs[g.Name]; ok {
		w.Gang = g
		b.gangs[g.Name] = w
	}
}

// SetDrained tells whether the scheduling queue has no pod left to try.
func (b *Batch) SetDrained(drained bool) {
	b.drained = drained
}

// Len is the number of pods in the batch.
func (b *Batch) Len() int { return len(b.pods) }

// Take removes what the last Check closed, or else all, and returns the UIDs, sorted. The pods of gangs that still wait stay.
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

// Lacking is how many pods a gang still waits for; 0 for one that is complete, or has waited long enough.
func (b *Batch) Lacking(gang string, now time.Time) int {
	w, ok := b.gangs[gang]
	if !ok || !now.Before(w.since.Add(b.config.GangTimeout)) {
		return 0
	}
	return max(0, w.Wanted-w.Existing)
}

// Check says whether the batch closes now, or a part of it: the pods of an owner whose end cannot be seen hold up no others.
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

// waiting says, for a human, what the pods wait for, and for what else.
func (s *sum) waiting(more ...string) string {
	return strings.Join(slices.Concat(s.incomplete, s.lacking, more), ", ")
}

// sum is a batch at one time.
type sum struct {
	// pods are those that wait for no gang, first and last when they were collected or something else happened.
	pods        int
	first, last time.Time
	// incomplete are the owners of these pods that may create more, lacking the gangs that wait, for a human.
	incomplete, lacking []string
	// untried says that an owner has pods that come for sure.
	untried bool
	// gangsUntil is when the first of the gangs has waited long enough; overdue that one has.
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
		out.lacking = append(out.lacking, fmt.Sprintf("for %d more pods of gang %s", n, name))
		if out.gangsUntil.IsZero() || until.Before(out.gangsUntil) {
			out.gangsUntil = until
		}
	}
}

// incomplete says what an owner may still create; empty for nothing.
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
	return fmt.Sprintf("for %d more pods of owner %s", o.Wanted-o.Existing, uid)
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
