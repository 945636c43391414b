package intake

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/plugin/batch"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// CheckEvery is the period in which an open batch is checked whose owners' pods are being bound outside of it.
const CheckEvery = 20 * time.Millisecond

// Config is what a Batch needs. All fields are required.
type Config struct {
	// Windows are the times after which an incomplete batch closes.
	Windows batch.Config
	// Collector provides the pods.
	Collector *Collector
	// Owners counts the pods of controllers and gangs.
	Owners *Owners
	// Tried reports whether the scheduling queue has given out a pod that is not in the batch, or placed it.
	Tried func(*corev1.Pod) bool
	// Idle reports whether the scheduling queue has no pod to try, and tries none. It takes time linear in these pods.
	Idle func() bool
}

// Batch is the open batch of pods. It is for one goroutine.
type Batch struct {
	Config

	entries []Entry
	index   map[types.UID]int
	rules   *batch.Batch
	// checked is when the owners were last counted.
	checked time.Time
}

// NewBatch returns an empty batch.
func NewBatch(c Config) (*Batch, error) {
	rules, err := batch.New(c.Windows)
	if err != nil {
		return nil, err
	}
	return &Batch{Config: c, index: map[types.UID]int{}, rules: rules}, nil
}

// Add puts the pod into the batch, or replaces its entry there.
func (b *Batch) Add(e Entry, at time.Time) {
	if i, ok := b.index[e.Pod.UID]; ok {
		b.entries[i] = e
		return
	}
	b.index[e.Pod.UID] = len(b.entries)
	b.entries = append(b.entries, e)
	pod := batch.Pod{
		UID: string(e.Pod.UID), Class: e.Class, Owner: ControllerOf(e.Pod).String(), Gang: e.Gang.Name, Waited: e.Waited,
		Namespace: e.Pod.Namespace, Related: relatesToPods(&e.Pod.Spec),
	}
	b.rules.Collect(pod, at)
}

// relatesToPods reports whether the pod's place may depend on the places of others of its batch.
func relatesToPods(spec *corev1.PodSpec) bool {
	a := spec.Affinity
	return len(spec.TopologySpreadConstraints) > 0 || a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil)
}

// Has reports whether the pod is in the batch.
func (b *Batch) Has(uid types.UID) bool {
	_, ok := b.index[uid]
	return ok
}

// Entries returns the pods of the batch, in order. The caller must not change the slice.
func (b *Batch) Entries() []Entry { return b.entries }

// Waits reports whether a pod waits for a plan. Pods of gangs that still wait for pods do not.
func (b *Batch) Waits(now time.Time) bool {
	return slices.ContainsFunc(b.entries, func(e Entry) bool { return b.Lacking(e.Gang.Name, now) == 0 })
}

// Lacking returns how many pods the gang still waits for.
func (b *Batch) Lacking(gang string, now time.Time) int { return b.rules.Lacking(gang, now) }

// Hold records in the collector whether the batch has pods. If it has, the collector records when the queue drains.
func (b *Batch) Hold() { b.Collector.hold(len(b.entries) > 0) }

// Check returns whether the batch closes, with the owners and gangs as they are now. While the queue is busy they are counted
// once per CheckEvery: counting them for each new pod takes time quadratic in their pods.
func (b *Batch) Check(now time.Time) batch.Verdict {
	drained := b.Collector.hold(true)
	if !drained && now.Before(b.checked.Add(CheckEvery)) {
		return batch.Verdict{Next: b.checked.Add(CheckEvery), Waiting: "for the scheduling queue to drain"}
	}
	b.checked = now
	// Pods of another scheduler are in the queue of that one.
	if !drained && !slices.ContainsFunc(b.entries, func(e Entry) bool { return e.Adopted }) {
		drained = b.Collector.settle(b.Idle)
	}
	b.rules.SetDrained(drained)
	seen, gangs := map[Controller]bool{}, map[string]plan.Gang{}
	for _, e := range b.entries {
		if g := e.Gang; g.Name != "" {
			g.Size = max(g.Size, gangs[g.Name].Size)
			gangs[g.Name] = g
		}
		owner := ControllerOf(e.Pod)
		if owner.None() || seen[owner] {
			continue
		}
		seen[owner] = true
		if o, ok := b.Owners.of(e.Pod.Namespace, metav1.GetControllerOfNoCopy(e.Pod), b.tried); ok {
			b.rules.SetOwner(o, now)
		}
	}
	for _, g := range gangs {
		b.rules.SetGang(b.Owners.gang(g, b.tried))
	}
	return b.rules.Check(now)
}

// tried reports whether the scheduling queue has given out the pod, or placed it.
func (b *Batch) tried(pod *corev1.Pod) bool { return b.Has(pod.UID) || b.Tried(pod) }

// Close removes the pods from the batch and returns them sorted. Pods of gangs that still wait for pods stay.
func (b *Batch) Close(now time.Time) []Entry {
	all := b.entries
	var out []Entry
	b.entries = nil
	for _, uid := range b.rules.Take(now) {
		e := all[b.index[types.UID(uid)]]
		e.Waited = true
		out = append(out, e)
		delete(b.index, types.UID(uid))
	}
	for _, e := range all {
		if b.Has(e.Pod.UID) {
			b.index[e.Pod.UID] = len(b.entries)
			b.entries = append(b.entries, e)
		}
	}
	Sort(out)
	b.Hold()
	return out
}
