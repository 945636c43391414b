package health

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/announce"
	"github.com/slipway-k8s/slipway/launcher/leadership"
)

// ConditionPreBinding is the type of a NodePool's condition that is False while nothing is bound there ahead of the scheduler.
// It is missing otherwise.
const ConditionPreBinding = "PreBinding"

// Reasons of the conditions.
const (
	// registrationFailed is Karpenter's reason of NodeRegistrationHealthy.
	registrationFailed = "RegistrationFailed"
	// rejectedByKubelets is the reason of PreBinding.
	rejectedByKubelets = "RejectedByKubelets"
)

// Config is what a Health is made of. Every field is required.
type Config struct {
	// Client reads NodePools from the cache and writes their conditions; Reader reads them from the API server.
	Client client.Client
	// Reader reads past the cache.
	Reader client.Reader
	// Events records slipway's own Events.
	Events announce.EventRecorder
	// Changed is told when a NodePool's Gate says something else than before; it returns at once.
	Changed func()
	// Registerer takes the metrics.
	Registerer prometheus.Registerer
}

// Health knows the health of all NodePools. It is safe for concurrent use.
type Health struct {
	config  Config
	metrics *metrics
	// poke wakes Run.
	poke chan struct{}

	mu    sync.Mutex
	pools map[types.UID]*known
}

// known is what is remembered of one NodePool as it and its class are now: a change of either starts anew.
type known struct {
	name              string
	generation, class int64
	breaker           Breaker
	rejections        rejections
}

// New returns a Health that knows nothing; Run tells when holds end.
func New(c Config) (*Health, error) {
	if c.Client == nil || c.Reader == nil || c.Events == nil || c.Changed == nil || c.Registerer == nil {
		return nil, errors.New("health: Client, Reader, Events, Changed and Registerer are required")
	}
	m, err := newMetrics(c.Registerer)
	if err != nil {
		return nil, err
	}
	return &Health{config: c, metrics: m, poke: make(chan struct{}, 1), pools: map[types.UID]*known{}}, nil
}

// Run tells Changed when a hold ends, until ctx ends.
func (h *Health) Run(ctx context.Context) error {
	for {
		h.prune(ctx)
		timer := time.NewTimer(h.next(time.Now()))
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		case <-h.poke:
			timer.Stop()
		}
		h.config.Changed()
	}
}

// prune forgets NodePools that are gone.
func (h *Health) prune(ctx context.Context) {
	list := &karpv1.NodePoolList{}
	if err := h.config.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return // The cache is not filled yet.
	}
	alive := map[types.UID]bool{}
	for i := range list.Items {
		alive[list.Items[i].UID] = true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for uid, k := range h.pools {
		if !alive[uid] {
			h.metrics.forget(k.name)
			delete(h.pools, uid)
		}
	}
}

// next is how long until the next hold ends.
func (h *Health) next(now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := longestHold
	for _, k := range h.pools {
		if left := k.breaker.Until.Sub(now); left > 0 {
			out = min(out, left)
		}
		h.metrics.hold(k.name, k.breaker.Gate(now))
	}
	return out
}

// Gate says whether, and how, a NodePool may launch now. The pool may be one that the cache shares.
func (h *Health) Gate(pool *karpv1.NodePool) Gate {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.knownOf(pool).breaker.Gate(time.Now())
}

// Joined notes that the node of a claim has registered. ctx is an effect's.
func (h *Health) Joined(ctx context.Context, claim *karpv1.NodeClaim) error {
	return h.note(ctx, claim, func(k *known) { k.breaker = k.breaker.Joined() })
}

// DidNotJoin notes that the node of a claim did not join. ctx is an effect's.
func (h *Health) DidNotJoin(ctx context.Context, claim *karpv1.NodeClaim, reason, message string) error {
	h.metrics.failures.WithLabelValues(claim.Labels[karpv1.NodePoolLabelKey], reason).Inc()
	return h.note(ctx, claim, func(k *known) {
		k.breaker = k.breaker.Failed(claim.CreationTimestamp.Time, time.Now(), message)
	})
}

// Rejected notes that the kubelet of a claim's node rejected a pod that was bound ahead of the scheduler. ctx is an effect's.
func (h *Health) Rejected(ctx context.Context, claim *karpv1.NodeClaim, reason, message string) error {
	h.metrics.rejected.WithLabelValues(claim.Labels[karpv1.NodePoolLabelKey], reason).Inc()
	return h.note(ctx, claim, func(k *known) {
		k.rejections = k.rejections.with(rejection{nodeClaim: claim.Name, at: time.Now(), why: message})
	})
}

// SwitchedOff is why nothing is bound ahead of the scheduler in the NodePool; empty where it is. The pool's condition says so,
// so that a restart changes nothing.
func (h *Health) SwitchedOff(pool *karpv1.NodePool) string {
	for _, c := range pool.Status.Conditions {
		if c.Type == ConditionPreBinding && c.Status == "False" && !over(pool, c.ObservedGeneration, c.LastTransitionTime.Time) {
			return c.Message
		}
	}
	return ""
}

// over says that a switched-off pre-binding counts no more: its time is up, or the NodePool is another by now.
func over(pool *karpv1.NodePool, generation int64, since time.Time) bool {
	return generation != pool.Generation || time.Since(since) > offFor
}

// knownOf returns what is remembered of a pool, restored from its conditions where nothing is. The lock is held.
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
	}
	// A cache that lags shows an older pool: nothing starts anew for that.
	if pool.Generation > k.generation || pool.Status.NodeClassObservedGeneration > k.class {
		*k = known{name: pool.Name, generation: pool.Generation, class: pool.Status.NodeClassObservedGeneration}
	}
	return k
}

// note changes what is remembered of the claim's NodePool, and writes its conditions.
func (h *Health) note(ctx context.Context, claim *karpv1.NodeClaim, change func(*known)) error {
	pool := &karpv1.NodePool{}
	err := h.config.Client.Get(ctx, types.NamespacedName{Name: claim.Labels[karpv1.NodePoolLabelKey]}, pool)
	if err != nil {
		return client.IgnoreNotFound(err) // Its claims end with it.
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

// write brings a NodePool's conditions in line with what is remembered, whoever else writes at the same time.
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

// news is an Event on a NodePool, and what the log says of it.
type news struct{ log, kind, reason, message string }

// conditions sets a pool's conditions and says what is new.
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

// preBinding switches pre-binding off, and on again when its time is up.
func (k *known) preBinding(pool *karpv1.NodePool) []news {
	set := pool.StatusConditions()
	off := set.Get(ConditionPreBinding)
	message := k.rejections.switchOff()
	switch {
	case message != "" && (off == nil || over(pool, off.ObservedGeneration, off.LastTransitionTime.Time)):
		_ = set.Clear(ConditionPreBinding) // It fails for conditions that Ready depends on; and the hour begins anew.
		set.SetFalse(ConditionPreBinding, rejectedByKubelets, message)
		k.rejections = nil
		return []news{{"Pre-binding is switched off for a NodePool", corev1.EventTypeWarning, "PreBindingOff", message}}
	case off != nil && over(pool, off.ObservedGeneration, off.LastTransitionTime.Time):
		_ = set.Clear(ConditionPreBinding)
		return []news{{"Pre-binding is on again for a NodePool", corev1.EventTypeNormal, "PreBindingOn", "pods are bound ahead of the scheduler again"}}
	}
	return nil
}
