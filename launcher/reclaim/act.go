package reclaim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
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
		if !refused.Taken {
			r.config.Events.Eventf(v.pool, corev1.EventTypeNormal, "DisruptionBlocked", "%s", refused.Error())
		}
		return retryBudget, nil
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
		if err = r.config.Ender.Begin(ctx, v.claim, Reason); err == nil {
			r.config.Metrics.Decided(v.pool.Name, voluntary.Delete, Reason, Reason)
			return 0, nil
		}
	}
	// The node is needed, or the termination could not start: the node stays.
	r.config.Ledger.Release(v.claim.UID)
	r.keep(v.claim.UID)
	if e := r.config.Ender.Uncordon(ctx, v.node.Name, Reason); e != nil {
		err = errors.Join(err, fmt.Errorf("uncordon Node %s: %w", v.node.Name, e))
	}
	if err != nil {
		return 0, fmt.Errorf("reclaim NodeClaim %s: %w", v.claim.Name, err)
	}
	r.config.Metrics.ValidationFailed(Reason)
	r.keepFor(v, why)
	klog.FromContext(ctx).V(4).Info("Kept empty node", "node", klog.KObj(v.node), "reason", why)
	return retryBusy, nil
}

// keepFor records why an empty node stays.
func (r *Reclaimer) keepFor(v *view, why string) {
	r.event(v, corev1.EventTypeNormal, "Unconsolidatable", "Empty, but kept: "+why)
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
	budgets := &policyv1.PodDisruptionBudgetList{}
	if err := r.config.Client.List(ctx, budgets, client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("listing PodDisruptionBudgets: %w", err)
	}
	candidate := disruption.Candidate{Now: time.Now(), Claim: v.claim, Node: v.node, Pool: v.pool, Pods: pods}
	return disruption.BlocksEmpty(candidate, disruption.ReadPodBudgets(budgets.Items)), nil
}

func (r *Reclaimer) keep(claim types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(r.kept, func(_ types.UID, until time.Time) bool { return now.After(until) })
	r.kept[claim] = now.Add(retryBusy)
}

// notBefore returns for how long a claim is not checked: its termination has started, or its node was needed a moment ago.
func (r *Reclaimer) notBefore(claim types.UID, now time.Time) time.Duration {
	if r.config.Ledger.Held(claim) {
		return retryBusy
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.kept[claim].Sub(now)
}

func (r *Reclaimer) event(v *view, kind, reason, message string) {
	r.config.Events.Eventf(v.claim, kind, reason, "%s", message)
	r.config.Events.Eventf(v.node, kind, reason, "%s", message)
}
