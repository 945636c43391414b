package reclaim

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// reclaim gives one node back, in this order: a place in its pool's budget, the cordon, the scheduler's word, a last
// look at its pods, the end. It says when to look again.
func (r *Reclaimer) reclaim(ctx context.Context, v *view) (time.Duration, error) {
	// 1. Within the budgets.
	blocked, err := r.reserve(ctx, v)
	if err != nil {
		return 0, err
	}
	if blocked != "" {
		r.config.Events.Eventf(v.pool, corev1.EventTypeNormal, "DisruptionBlocked", "No allowed disruptions for disruption reason %s due to %s", karpv1.DisruptionReasonEmpty, blocked)
		return retryBudget, nil
	}
	// 2. to 4. Nobody may want the node.
	why, err := r.free(ctx, v)
	if err == nil && why == "" {
		// 5. The claim's deletion is the record; terminate does the rest.
		klog.FromContext(ctx).Info("disrupting node(s)", "reason", Reason, "nodeClaim", klog.KObj(v.claim), "node", klog.KObj(v.node), "decision", "delete")
		r.event(v, corev1.EventTypeNormal, "DisruptionTerminating", "Disrupting Node: Empty")
		if err = r.config.Ender.Begin(ctx, v.claim, Reason); err == nil {
			r.metrics.decisions.WithLabelValues("delete", Reason, Reason).Inc()
			return 0, nil
		}
	}
	// Somebody does, or the end could not begin: the node serves on.
	r.unreserve(v.claim.UID)
	r.keep(v.claim.UID)
	if e := r.config.Ender.Uncordon(ctx, v.node.Name, Reason); e != nil {
		err = errors.Join(err, fmt.Errorf("uncordon Node %s: %w", v.node.Name, e))
	}
	if err != nil {
		return 0, fmt.Errorf("reclaim NodeClaim %s: %w", v.claim.Name, err)
	}
	r.metrics.failed.WithLabelValues(Reason).Inc()
	r.event(v, corev1.EventTypeNormal, "Unconsolidatable", "Empty, but kept: "+why)
	klog.FromContext(ctx).V(4).Info("Kept empty node", "node", klog.KObj(v.node), "reason", why)
	return retryBusy, nil
}

// free cordons the node and says why it is not free after all; empty where it is.
func (r *Reclaimer) free(ctx context.Context, v *view) (string, error) {
	if err := r.config.Ender.Cordon(ctx, v.node.Name, Reason); err != nil {
		return "", err
	}
	askCtx, cancel := context.WithTimeout(ctx, busyTimeout)
	defer cancel()
	busy, reason, err := r.config.Asker.Busy(askCtx, v.node.Name)
	switch {
	case err != nil:
		return "the scheduler did not answer: " + err.Error(), nil
	case busy:
		return reason + " (the scheduler has something for the node)", nil
	}
	pods, err := podsOn(ctx, r.config.Reader, v.node.Name)
	if err != nil {
		return "", err
	}
	if pod := occupant(pods); pod != nil {
		return fmt.Sprintf("pod %s/%s came", pod.Namespace, pod.Name), nil
	}
	return "", nil
}

// reserve takes a place in the pool's budget for the claim, or says what is in the way.
func (r *Reclaimer) reserve(ctx context.Context, v *view) (blocked string, err error) {
	list := &karpv1.NodeClaimList{}
	if err := r.config.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return "", fmt.Errorf("list NodeClaims: %w", err)
	}
	var own []karpv1.NodeClaim
	going := map[types.UID]bool{}
	ready := map[string]bool{}
	for i := range list.Items {
		claim := &list.Items[i]
		if claim.DeletionTimestamp != nil {
			going[claim.UID] = true
		}
		if claim.Labels[karpv1.NodePoolLabelKey] != v.pool.Name {
			continue
		}
		own = append(own, *claim)
		node := &corev1.Node{}
		if err := r.config.Client.Get(ctx, client.ObjectKey{Name: claim.Status.NodeName}, node); err == nil {
			ready[node.Name] = isReady(node)
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for uid := range r.leaving {
		going[uid] = true
	}
	nodes, disrupted := r.count(own, ready)
	allowed, err := Allowed(v.pool, nodes, disrupted, v.facts.Now)
	r.metrics.allowed.WithLabelValues(v.pool.Name, string(karpv1.DisruptionReasonEmpty)).Set(float64(allowed))
	if blocked = Blocked(len(going), allowed, err); blocked == "" {
		r.leaving[v.claim.UID] = true
	}
	return blocked, nil
}

// count is what budgets are reckoned with: initialized nodes, without those whose instance is being terminated
// already. The caller holds mu.
func (r *Reclaimer) count(claims []karpv1.NodeClaim, ready map[string]bool) (nodes, disrupted int) {
	for i := range claims {
		set := claims[i].StatusConditions()
		if !set.IsTrue(karpv1.ConditionTypeInitialized) || set.IsTrue(karpv1.ConditionTypeInstanceTerminating) {
			continue
		}
		nodes++
		if claims[i].DeletionTimestamp != nil || r.leaving[claims[i].UID] || !ready[claims[i].Status.NodeName] {
			disrupted++
		}
	}
	return nodes, disrupted
}

func (r *Reclaimer) unreserve(claim types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.leaving, claim)
}

func (r *Reclaimer) keep(claim types.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(r.kept, func(_ types.UID, until time.Time) bool { return now.After(until) })
	r.kept[claim] = now.Add(retryBusy)
}

// notBefore is how long to leave a claim alone: its end was begun, or somebody wanted its node a moment ago.
func (r *Reclaimer) notBefore(claim types.UID, now time.Time) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.leaving[claim] {
		return retryBusy
	}
	return r.kept[claim].Sub(now)
}

func (r *Reclaimer) isLeaving(claim types.UID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.leaving[claim]
}

func isReady(node *corev1.Node) bool {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func (r *Reclaimer) event(v *view, kind, reason, message string) {
	r.config.Events.Eventf(v.claim, kind, reason, "%s", message)
	r.config.Events.Eventf(v.node, kind, reason, "%s", message)
}
