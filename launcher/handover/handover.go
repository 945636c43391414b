package handover

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/announce"
	"github.com/slipway-k8s/slipway/launcher/finalizer"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/leadership"
)

const (
	// period is the time between two passes.
	period = time.Second
	// settledFor is for how long NodeClaims are not looked at again when none needed a step and no Karpenter runs.
	settledFor = 10 * time.Second
	// proofFor is how long a proof is believed, and doubtFor how long it takes until a NodePool without one is tried again.
	proofFor = 10 * time.Second
	doubtFor = 2 * time.Second
)

// The reasons of Events on NodeClaims.
const (
	reasonTaken    = "TakenOver"
	reasonReturned = "Returned"
)

// Neighbour is what is known of a running Karpenter.
type Neighbour interface {
	// Alone reports whether certainly none runs.
	Alone() bool
	// Known reports whether it is known if one runs.
	Known() bool
	// Selected reports whether a NodePool is handed over while one runs.
	Selected(pool *karpv1.NodePool) bool
	// IsKarpenter reports whether a user may create NodeClaims.
	IsKarpenter(user string) bool
}

// Config holds the dependencies of a Handover. All fields are required.
type Config struct {
	// Client reads from the cache, with the indexes of package index, and writes.
	Client client.Client
	// Claims reads NodeClaims from the cache.
	Claims index.Claims
	// Guard allows effects only while this process leads.
	Guard leadership.Guard
	// Events records slipway's Events.
	Events announce.EventRecorder
	// Neighbour is the running Karpenter.
	Neighbour Neighbour
	// Changed is called when a NodePool became slipway's, or is no more.
	Changed func()
}

// proof is the last result of a proof.
type proof struct {
	err error
	at  time.Time
}

// Handover changes the owners of NodeClaims and Nodes.
type Handover struct {
	config Config

	mu     sync.Mutex
	proofs map[string]proof
	// settled is when a pass found nothing to do while no Karpenter ran; it belongs to Run's goroutine.
	settled time.Time
}

// New returns a Handover; Run starts it.
func New(c Config) (*Handover, error) {
	if c.Client == nil || c.Claims == nil || c.Guard == nil || c.Events == nil || c.Neighbour == nil || c.Changed == nil {
		return nil, errors.New("handover: Client, Claims, Guard, Events, Neighbour and Changed are required")
	}
	return &Handover{config: c, proofs: map[string]proof{}}, nil
}

// Run makes one pass per period until ctx ends, while this process leads.
func (h *Handover) Run(ctx context.Context) error {
	failed := func(err error) {
		klog.FromContext(ctx).Error(err, "Handing over NodeClaims failed, will retry")
	}
	leadership.Every(ctx, h.config.Guard, period, failed, func(ctx context.Context) error {
		if h.config.Neighbour.Alone() && time.Since(h.settled) < settledFor {
			return nil // To look at thousands of NodeClaims every second would cost more than all else that an idle launcher does.
		}
		return h.Pass(ctx)
	})
	return nil
}

// Keeps returns nil if Karpenter is kept from the NodePool, and else why that is not certain.
func (h *Handover) Keeps(pool string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	p, ok := h.proofs[pool]
	if !ok {
		return fmt.Errorf("checking the handover policies for NodePool %s: not done yet", pool)
	}
	return p.err
}

// Pass proves the policies for the NodePools that are handed over, and makes one step with each NodeClaim. ctx ends with leadership.
func (h *Handover) Pass(ctx context.Context) error {
	if !h.config.Neighbour.Known() {
		return nil
	}
	pools := &karpv1.NodePoolList{}
	if err := h.config.Client.List(ctx, pools, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing NodePools: %w", err)
	}
	selected := map[string]bool{}
	for i := range pools.Items {
		selected[pools.Items[i].Name] = h.config.Neighbour.Selected(&pools.Items[i])
	}
	if !h.config.Neighbour.Alone() {
		h.prove(ctx, selected)
	}
	claims, err := h.config.Claims.All(ctx)
	if err != nil {
		return err
	}
	return h.steps(ctx, claims, selected)
}

// steps makes one step with each NodeClaim, and drops the proofs once all are returned.
func (h *Handover) steps(ctx context.Context, claims []*karpv1.NodeClaim, selected map[string]bool) error {
	var errs []error
	h.settled = time.Now()
	returned := h.config.Neighbour.Alone()
	for _, claim := range claims {
		pool := claim.Labels[karpv1.NodePoolLabelKey]
		facts := Facts{Claim: claim, Alone: h.config.Neighbour.Alone(), Selected: selected[pool]}
		if facts.Alone && !finalizer.Taken(claim) && finalizer.Karpenters(claim) && len(h.proofs) == 0 {
			continue // As it is nearly always.
		}
		h.settled = time.Time{}
		facts.Kept = facts.Selected && h.Keeps(pool) == nil
		step, err := h.step(ctx, facts)
		returned = returned && step == Stay && err == nil && !finalizer.Taken(claim)
		errs = append(errs, err)
	}
	if returned {
		h.forget()
	}
	return errors.Join(errs...)
}

// forget drops the proofs. Nothing is handed over any more: no NodeClaim that was returned has a Node that was not.
func (h *Handover) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	clear(h.proofs)
}

// prove proves again what is old, and forgets NodePools that are no more selected.
func (h *Handover) prove(ctx context.Context, selected map[string]bool) {
	changed := false
	for pool, is := range selected {
		h.mu.Lock()
		before, known := h.proofs[pool]
		if !is {
			delete(h.proofs, pool)
		}
		h.mu.Unlock()
		age := proofFor
		if before.err != nil {
			age = doubtFor
		}
		if !is || known && time.Since(before.at) < age {
			changed = changed || !is && known
			continue
		}
		next := proof{err: prove(ctx, h.config.Client, pool, h.config.Neighbour.IsKarpenter), at: time.Now()}
		if ctx.Err() != nil {
			return
		}
		h.mu.Lock()
		h.proofs[pool] = next
		h.mu.Unlock()
		if !known || (before.err == nil) != (next.err == nil) {
			changed = true
			klog.FromContext(ctx).Info("Checked whether the admission policies keep Karpenter from a NodePool", "nodePool", pool, "kept", next.err == nil, "reason", next.err)
		}
	}
	if changed {
		h.config.Changed()
	}
}

// step makes one step with a NodeClaim and its Node, and returns it.
func (h *Handover) step(ctx context.Context, f Facts) (step Step, err error) {
	if f.Node, err = index.NodeOf(ctx, h.config.Client, f.Claim); err != nil {
		return Stay, err
	}
	step = Decide(f)
	switch step {
	case Stay:
		return Stay, nil
	case TakeNode:
		node := f.Node.DeepCopy()
		finalizer.Take(node)
		finalizer.Shield(node)
		err = h.patch(ctx, f.Node, node)
	case ReturnNode:
		node := f.Node.DeepCopy()
		finalizer.Return(node)
		finalizer.Unshield(node)
		err = h.patch(ctx, f.Node, node)
	case ReleaseNode:
		node := f.Node.DeepCopy()
		finalizer.Release(node)
		err = h.patch(ctx, f.Node, node)
	case TakeClaim:
		claim := f.Claim.DeepCopy()
		finalizer.Take(claim)
		err = h.patch(ctx, f.Claim, claim)
	case ReturnClaim:
		claim := f.Claim.DeepCopy()
		finalizer.Return(claim)
		err = h.patch(ctx, f.Claim, claim)
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return step, nil // The next pass decides again.
	}
	if err != nil {
		return step, fmt.Errorf("handing over NodeClaim %s: %s: %w", f.Claim.Name, step, err)
	}
	h.announce(ctx, f, step)
	return step, nil
}

func (h *Handover) patch(ctx context.Context, before, after client.Object) error {
	return h.config.Client.Patch(ctx, after, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

func (h *Handover) announce(ctx context.Context, f Facts, step Step) {
	klog.FromContext(ctx).Info("Changed the owner", "step", step, "nodeClaim", klog.KObj(f.Claim), "node", f.Claim.Status.NodeName, "alone", f.Alone)
	switch {
	case step == TakeClaim && f.Selected:
		h.config.Events.Eventf(f.Claim, corev1.EventTypeNormal, reasonTaken, "slipway took the NodeClaim over from Karpenter: its NodePool is handed over")
	case step == ReturnClaim && !f.Alone:
		h.config.Events.Eventf(f.Claim, corev1.EventTypeNormal, reasonReturned, "slipway returned the NodeClaim to Karpenter: its NodePool is no more handed over")
	}
}
