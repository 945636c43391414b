package reclaim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/budget"
	"github.com/slipway-k8s/slipway/launcher/index"
	"github.com/slipway-k8s/slipway/launcher/voluntary"
)

// Karpenter's Events about nodes that stay.
const (
	unconsolidatable  = "Unconsolidatable"
	disruptionBlocked = "DisruptionBlocked"
)

// reclaim removes one empty node in this order: a look at whether something keeps it that is no pod to be moved, a place in its NodePool's budget, the cordon,
// the scheduler's answer, a last check of its pods, the termination. It returns when to check a node again that stays, and zero for one that does not.
func (r *Reclaimer) reclaim(ctx context.Context, v *view) (time.Duration, error) {
	// 1. Check what keeps it without the scheduler: a cordon would keep pods off it.
	why, err := r.needed(ctx, v, v.facts.Pods)
	if err != nil {
		return 0, err
	}
	if why != "" {
		r.keepFor(v, why)
		return retryBusy, nil
	}
	// 2. Check the budgets.
	err = r.config.Ledger.Reserve(ctx, karpv1.DisruptionReasonEmpty, v.claim)
	if refused := (*budget.RefusedError)(nil); errors.As(err, &refused) {
		return r.refused(v, refused), nil
	}
	if err != nil {
		return 0, err
	}
	// 3. to 5. Check that nothing needs the node.
	why, err = r.free(ctx, v)
	if err == nil && why == "" {
		// 6. The claim's deletion is the record; package terminate does the rest.
		klog.FromContext(ctx).Info("disrupting node(s)", "reason", Reason, "nodeClaim", klog.KObj(v.claim), "node", klog.KObj(v.node), "decision", "delete")
		r.event(v, corev1.EventTypeNormal, "DisruptionTerminating", "Disrupting Node: Empty")
		if err = r.config.Ender.Begin(ctx, v.claim, Reason); err == nil || r.ends(ctx, v.claim) {
			r.config.Metrics.Decided(v.pool.Name, voluntary.Delete, Reason, Reason)
			return 0, nil
		}
	}
	// The node is needed, or the termination could not start: the node stays.
	r.config.Ledger.Release(v.claim.UID)
	wait := r.keep(v.claim.UID, why)
	if e := r.config.Ender.Uncordon(ctx, v.node.Name, Reason); e != nil {
		err = errors.Join(err, fmt.Errorf("uncordon Node %s: %w", v.node.Name, e))
	}
	if err != nil {
		return 0, fmt.Errorf("reclaim NodeClaim %s: %w", v.claim.Name, err)
	}
	r.config.Metrics.ValidationFailed(Reason)
	r.keepFor(v, why)
	klog.FromContext(ctx).V(4).Info("Kept empty node", "node", klog.KObj(v.node), "reason", why, "again", wait)
	return wait, nil
}

// ends reports whether the API server shows that a NodeClaim ends: a deletion without an answer may have been done.
func (r *Reclaimer) ends(ctx context.Context, claim *karpv1.NodeClaim) bool {
	now := &karpv1.NodeClaim{}
	if err := r.config.Reader.Get(ctx, client.ObjectKeyFromObject(claim), now); err != nil {
		return apierrors.IsNotFound(err)
	}
	return now.UID != claim.UID || !now.DeletionTimestamp.IsZero()
}

// keepFor records why an empty node stays.
func (r *Reclaimer) keepFor(v *view, why string) {
	if message := "Empty, but kept: " + why; r.isNew(unconsolidatable, v.claim, message) {
		r.event(v, corev1.EventTypeNormal, unconsolidatable, message)
	}
}

// refused returns when a node that got no place in the budgets is checked again. No node of the NodePool is checked before that.
func (r *Reclaimer) refused(v *view, by *budget.RefusedError) time.Duration {
	wait := retryBudget
	if by.Taken {
		return wait
	}
	if by.Closed {
		wait = retryClosed
	}
	r.mu.Lock()
	now := time.Now()
	maps.DeleteFunc(r.full, func(_ place, until time.Time) bool { return now.After(until) })
	r.full[placeOf(v)] = now.Add(wait)
	r.mu.Unlock()
	if message := by.Error(); v.pool != nil && r.isNew(disruptionBlocked, v.pool, message) {
		r.config.Events.Eventf(v.pool, corev1.EventTypeNormal, disruptionBlocked, "%s", message)
	}
	return wait
}

func placeOf(v *view) place {
	counts := disruption.BudgetNodeOf(v.claim, v.node)
	return place{pool: counts.Pool, disrupted: counts.Disrupted}
}

// reopen has the budgets of a NodePool checked again at once.
func (r *Reclaimer) reopen(pool string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.full, func(p place, _ time.Time) bool { return p.pool == pool })
}

// isNew reports whether a message about an object is to be recorded, and remembers it.
func (r *Reclaimer) isNew(event string, object client.Object, message string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if !r.recorded.IsNew(event, string(object.GetUID()), message, now) {
		return false
	}
	r.recorded.Forget(now)
	return true
}

// free cordons the node and returns why it is not free; "" if it is.
func (r *Reclaimer) free(ctx context.Context, v *view) (string, error) {
	if err := r.config.Ender.Cordon(ctx, v.node.Name, Reason); err != nil {
		return "", err
	}
	askCtx, cancel := context.WithTimeout(ctx, busyTimeout)
	defer cancel()
	busy, reason, err := r.config.Asker.Busy(askCtx, &api.NodeBusy{NodeName: v.node.Name})
	switch {
	case err != nil:
		return "the scheduler did not answer: " + err.Error(), nil
	case busy:
		return reason + " (the scheduler has something for the node)", nil
	}
	pods, err := index.ListPods(r.config.Reader).On(ctx, v.node.Name)
	if err != nil {
		return "", err
	}
	if pod := disruption.Occupant(pods); pod != nil {
		return fmt.Sprintf("pod %s/%s came", pod.Namespace, pod.Name), nil
	}
	return r.needed(ctx, v, pods)
}

// needed returns what keeps an empty node with these pods; "" if nothing does: a room of a buffer, or a pod that its drain would wait for without an end.
func (r *Reclaimer) needed(ctx context.Context, v *view, pods []*corev1.Pod) (string, error) {
	if why := r.config.Needed(v.claim); why != "" {
		return why, nil
	}
	budgets, err := new(index.Budgets).Of(ctx, r.config.Client, pods...)
	if err != nil {
		return "", err
	}
	candidate := disruption.Candidate{Now: time.Now(), Claim: v.claim, Node: v.node, Pool: v.pool, Pods: pods}
	return disruption.BlocksEmpty(candidate, budgets), nil
}

// keep has a claim's node left alone, and returns for how long: twice as long as the last time if it is needed for the same reason.
func (r *Reclaimer) keep(claim types.UID, why string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, next := time.Now(), rest{wait: retryBusy, why: why}
	maps.DeleteFunc(r.kept, func(_ types.UID, last rest) bool { return now.Sub(last.until) > busyAtMost })
	if last := r.kept[claim]; why != "" && last.why == why {
		next.wait = min(2*last.wait, busyAtMost)
	}
	next.until = now.Add(next.wait)
	r.kept[claim] = next
	return next.wait
}

// notBefore returns for how long a node is not checked: its termination has started, it was needed a moment ago, or the budgets of its NodePool refused
// a node a moment ago.
func (r *Reclaimer) notBefore(v *view) time.Duration {
	if r.config.Ledger.Held(v.claim.UID) {
		return retryBusy
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(r.kept[v.claim.UID].until.Sub(v.facts.Now), r.full[placeOf(v)].Sub(v.facts.Now))
}

func (r *Reclaimer) event(v *view, kind, reason, message string) {
	r.config.Events.Eventf(v.claim, kind, reason, "%s", message)
	r.config.Events.Eventf(v.node, kind, reason, "%s", message)
}
