package health

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/announce"
	"github.com/slipway-k8s/slipway/launcher/leadership"
)

// ConditionPreBinding is the type of a NodePool's condition that is False while the launcher binds no pods there ahead of the scheduler.
// Otherwise the condition is missing.
const ConditionPreBinding = "PreBinding"

// lookEvery is how often Run looks whether this replica leads, and which NodePools are held.
const lookEvery = time.Second

// Reasons of the conditions.
const (
	// registrationFailed is Karpenter's reason of NodeRegistrationHealthy.
	registrationFailed = "RegistrationFailed"
	// rejectedByKubelets is the reason of PreBinding.
	rejectedByKubelets = "RejectedByKubelets"
)

// Config holds the dependencies of a Health. Every field is required.
type Config struct {
	// Client reads NodePools from the cache and writes their conditions.
	Client client.Client
	// Reader reads past the cache.
	Reader client.Reader
	// Events records slipway's own Events.
	Events announce.EventRecorder
	// Leading reports whether this replica leads: what holds NodePools is its own to report only then.
	Leading func() bool
	// Changed is called when a NodePool's Gate has changed; it returns at once.
	Changed func()
	// Registerer registers the metrics.
	Registerer prometheus.Registerer
}

// Health tracks the health of all NodePools. It is safe for concurrent use.
type Health struct {
	config  Config
	metrics *metrics
	// poke wakes Run.
	poke chan struct{}

	mu    sync.Mutex
	pools map[types.UID]*known
}

// known is the state of one NodePool in its current form and that of its class: a change of either resets it.
type known struct {
	name              string
	generation, class int64
	breaker           Breaker
	rejections        rejections
	// failed are the NodeClaims that were counted last as not joined, at most mostFailed.
	failed []types.UID
}

// mostFailed bounds the NodeClaims whose failure is remembered: two reports of one come within seconds.
const mostFailed = 100

// fails reports whether the failure of a NodeClaim is counted for the first time.
func (k *known) fails(claim types.UID) bool {
	if slices.Contains(k.failed, claim) {
		return false
	}
	k.failed = append(k.failed[max(len(k.failed)-mostFailed+1, 0):], claim)
	return true
}

// New returns a Health without history; Run signals when holds end.
func New(c Config) (*Health, error) {
	if c.Client == nil || c.Reader == nil || c.Events == nil || c.Leading == nil || c.Changed == nil || c.Registerer == nil {
		return nil, errors.New("health: Client, Reader, Events, Leading, Changed and Registerer are required")
	}
	m, err := newMetrics(c.Registerer, c.Leading)
	if err != nil {
		return nil, err
	}
	return &Health{config: c, metrics: m, poke: make(chan struct{}, 1), pools: map[types.UID]*known{}}, nil
}

// Run calls Changed when a hold ends, until ctx ends. When this replica begins to lead it forgets what it knew: another one may have led since, and
// what that knew is in the conditions.
func (h *Health) Run(ctx context.Context) error {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	led := h.config.Leading()
	for {
		h.show(ctx)
		ends := time.After(h.next(time.Now()))
		for changed := false; !changed; {
			select {
			case <-ctx.Done():
				return nil
			case <-ends:
				changed = true
			case <-h.poke:
				changed = true
			case <-look.C:
				h.show(ctx) // A NodePool may have been edited or deleted.
				was := led
				if led = h.config.Leading(); led && !was {
					h.forget()
					changed = true
				}
			}
		}
		h.config.Changed()
	}
}

// forget drops all states.
func (h *Health) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.pools)
	h.metrics.held.Reset()
}

// show drops deleted NodePools, and writes the metric of the others.
func (h *Health) show(ctx context.Context) {
	list := &karpv1.NodePoolList{}
	if err := h.config.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return // The cache is not filled yet.
	}
	alive, named := map[types.UID]bool{}, map[string]bool{}
	for i := range list.Items {
		alive[list.Items[i].UID], named[list.Items[i].Name] = true, true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for uid, k := range h.pools {
		if !alive[uid] {
			delete(h.pools, uid)
			if !named[k.name] { // Another of that name has these series now.
				h.metrics.forget(k.name)
			}
			continue
		}
		h.metrics.hold(k.name, k.breaker.Gate(time.Now()))
	}
}

// next returns the time until the next hold ends.
func (h *Health) next(now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := longestHold
	for _, k := range h.pools {
		if left := k.breaker.Until.Sub(now); left > 0 {
			out = min(out, left)
		}
	}
	return out
}

// Gate returns whether a NodePool may launch now, and how many nodes at a time. The pool may be the cache's object.
func (h *Health) Gate(pool *karpv1.NodePool) Gate {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.knownOf(pool).breaker.Gate(time.Now())
}

// Joined records that the node of a claim has registered. ctx is an effect's.
func (h *Health) Joined(ctx context.Context, claim *karpv1.NodeClaim) error {
	return h.note(ctx, claim, func(k *known) { k.breaker = k.breaker.Joined() })
}

// DidNotJoin records that the node of a claim did not join. ctx is an effect's.
func (h *Health) DidNotJoin(ctx context.Context, claim *karpv1.NodeClaim, reason, message string) error {
	return h.note(ctx, claim, func(k *known) {
		if !k.fails(claim.UID) {
			return
		}
		h.metrics.failures.WithLabelValues(claim.Labels[karpv1.NodePoolLabelKey], reason).Inc()
		k.breaker = k.breaker.Failed(claim.CreationTimestamp.Time, time.Now(), message)
	})
}

// Rejected records that the kubelet of a claim's node rejected a pod that the launcher bound. ctx is an effect's.
func (h *Health) Rejected(ctx context.Context, claim *karpv1.NodeClaim, reason, message string) error {
	h.metrics.rejected.WithLabelValues(claim.Labels[karpv1.NodePoolLabelKey], reason).Inc()
	return h.note(ctx, claim, func(k *known) {
		k.rejections = k.rejections.with(rejection{nodeClaim: claim.Name, at: time.Now(), why: message})
	})
}

// SwitchedOff returns why the launcher binds no pods in the NodePool; "" if it does. It reads the pool's condition, so that a restart
// changes nothing.
func (h *Health) SwitchedOff(pool *karpv1.NodePool) string {
	for _, c := range pool.Status.Conditions {
		if c.Type == ConditionPreBinding && c.Status == "False" && !over(pool, c.ObservedGeneration, c.LastTransitionTime.Time) {
			return c.Message
		}
	}
	return ""
}

// over reports whether a disabled pre-binding has ended: its time is up, or the NodePool has changed.
func over(pool *karpv1.NodePool, generation int64, since time.Time) bool {
	return generation != pool.Generation || time.Since(since) > offFor
}

// knownOf returns the state of a pool, restored from its conditions if there is none. The lock is held.
func (h *Health) knownOf(pool *karpv1.NodePool) *known {
	k := h.pools[pool.UID]
	if k == nil {
		k = &known{name: pool.Name, generation: pool.Generation, class: pool.Status.NodeClassObservedGeneration}
		for _, c := range pool.Status.Conditions {
			if c.Type == karpv1.ConditionTypeNodeRegistrationHealthy && c.Status != "Unknown" && c.ObservedGeneration == pool.Generation {
				k.breaker = Restored(c.Status == "True", c.LastTransitionTime.Time, c.Message)
			}
		}
		h.pools[pool.UID] = k
		h.metrics.preset(pool.Name)
	}
	// A lagging cache returns an older pool: that does not reset the state.
	if pool.Generation > k.generation || pool.Status.NodeClassObservedGeneration > k.class {
		*k = known{name: pool.Name, generation: pool.Generation, class: pool.Status.NodeClassObservedGeneration}
	}
	return k
}

// note changes the state of the claim's NodePool, and writes its conditions.
func (h *Health) note(ctx context.Context, claim *karpv1.NodeClaim, change func(*known)) error {
	pool := &karpv1.NodePool{}
	err := h.config.Client.Get(ctx, types.NamespacedName{Name: claim.Labels[karpv1.NodePoolLabelKey]}, pool)
	if err != nil {
		return client.IgnoreNotFound(err) // A deleted NodePool's claims are deleted with it.
	}
	h.mu.Lock()
	k := h.knownOf(pool)
	before := k.breaker.Gate(time.Now())
	change(k)
	after := k.breaker.Gate(time.Now())
	h.mu.Unlock()
	if before != after {
		select {
		case h.poke <- struct{}{}:
		default:
		}
	}
	return h.write(ctx, pool)
}

// write updates a NodePool's conditions from the state, and retries on conflicts.
func (h *Health) write(ctx context.Context, pool *karpv1.NodePool) error {
	first := true
	err := leadership.RetryOnConflict(func() error {
		if !first {
			if err := h.config.Reader.Get(ctx, client.ObjectKeyFromObject(pool), pool); err != nil {
				return err
			}
		}
		first = false
		before := pool.DeepCopy()
		news := h.conditions(pool)
		if equality.Semantic.DeepEqual(before.Status, pool.Status) {
			return nil
		}
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := h.config.Client.Status().Patch(ctx, pool, patch); err != nil {
			return err
		}
		h.written(pool, news)
		for _, n := range news {
			klog.FromContext(ctx).Info(n.log, "nodePool", klog.KObj(pool), "message", n.message)
			h.config.Events.Eventf(pool, n.kind, n.reason, "%s", n.message)
		}
		return nil
	})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("writing conditions of NodePool %s: %w", pool.Name, err)
	}
	return nil
}

// written forgets the rejections that a condition is about which is written now.
func (h *Health) written(pool *karpv1.NodePool, all []news) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, n := range all {
		if n.reason == reasonPreBindingOff {
			h.knownOf(pool).rejections = nil
		}
	}
}

// reasonPreBindingOff is the reason of the Event about a NodePool whose pods are not pre-bound any more.
const reasonPreBindingOff = "PreBindingOff"

// news is an Event on a NodePool, with its log message.
type news struct{ log, kind, reason, message string }

// conditions sets a pool's conditions and returns the changes.
func (h *Health) conditions(pool *karpv1.NodePool) []news {
	h.mu.Lock()
	defer h.mu.Unlock()
	k := h.knownOf(pool)
	set := pool.StatusConditions()
	var out []news
	was := set.Get(karpv1.ConditionTypeNodeRegistrationHealthy)
	switch b := k.breaker; {
	case len(b.Nodes) == 0, b.Healthy() && !b.Nodes[len(b.Nodes)-1]:
	case b.Healthy():
		if set.SetTrue(karpv1.ConditionTypeNodeRegistrationHealthy); was.IsFalse() {
			out = append(out, news{"Nodes of a NodePool join again", corev1.EventTypeNormal, "NodesJoin", "the nodes of this NodePool join again"})
		}
	case b.Tries == 0:
		set.SetFalse(karpv1.ConditionTypeNodeRegistrationHealthy, registrationFailed, b.Message())
	default:
		message := b.Message()
		if set.SetFalse(karpv1.ConditionTypeNodeRegistrationHealthy, registrationFailed, message); was == nil || was.Message != message {
			out = append(out, news{"Holding a NodePool whose nodes do not join", corev1.EventTypeWarning, "NodesDoNotJoin", message})
		}
	}
	return append(out, k.preBinding(pool)...)
}

// preBinding disables pre-binding, and enables it again when its time is up.
func (k *known) preBinding(pool *karpv1.NodePool) []news {
	set := pool.StatusConditions()
	off := set.Get(ConditionPreBinding)
	message := k.rejections.switchOff()
	switch {
	case message != "" && (off == nil || over(pool, off.ObservedGeneration, off.LastTransitionTime.Time)):
		_ = set.Clear(ConditionPreBinding) // Clear fails only for conditions that Ready depends on. Clearing restarts the hour.
		set.SetFalse(ConditionPreBinding, rejectedByKubelets, message)
		return []news{{"Pre-binding is switched off for a NodePool", corev1.EventTypeWarning, reasonPreBindingOff, message}}
	case off != nil && over(pool, off.ObservedGeneration, off.LastTransitionTime.Time):
		_ = set.Clear(ConditionPreBinding)
		return []news{{"Pre-binding is on again for a NodePool", corev1.EventTypeNormal, "PreBindingOn", "pods are bound ahead of the scheduler again"}}
	}
	return nil
}
