package reclaim

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	nodeobj "github.com/slipway-k8s/slipway/launcher/node"
	"github.com/slipway-k8s/slipway/launcher/terminate"
)

// view is one observation of a node. Its objects are the cache's, and are not changed.
type view struct {
	claim        *karpv1.NodeClaim
	node         *corev1.Node
	pool         *karpv1.NodePool
	facts        disruption.EmptyFacts
	cordonedByUs bool
}

// look gathers the facts about a claim's node; nil if it has none.
func (r *Reclaimer) look(ctx context.Context, claim *karpv1.NodeClaim) (*view, error) {
	v := &view{claim: claim, node: &corev1.Node{}}
	err := r.config.Client.Get(ctx, client.ObjectKey{Name: claim.Status.NodeName}, v.node, client.UnsafeDisableDeepCopy)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("getting Node %s of NodeClaim %s: %w", claim.Status.NodeName, claim.Name, err)
	}
	pods, err := r.config.Pods.On(ctx, v.node.Name)
	if err != nil {
		return nil, err
	}
	if name := claim.Labels[karpv1.NodePoolLabelKey]; name != "" {
		pool := &karpv1.NodePool{}
		err := r.config.Client.Get(ctx, client.ObjectKey{Name: name}, pool, client.UnsafeDisableDeepCopy)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("getting NodePool %s of NodeClaim %s: %w", name, claim.Name, err)
		}
		if err == nil {
			v.pool = pool
		}
	}
	v.facts = facts(v, pods, r.events.of(v.node.Name), time.Now())
	v.cordonedByUs = terminate.Cordoned(v.node) && v.node.Annotations[terminate.CordonedByAnnotation] == Reason
	return v, nil
}

// facts converts the objects for disruption.DecideEmpty. lastEvent is when a pod was last bound to the node or removed from it, according to
// the watch.
func facts(v *view, pods []*corev1.Pod, lastEvent, now time.Time) disruption.EmptyFacts {
	f := disruption.EmptyFactsOf(disruption.Candidate{Now: now, Claim: v.claim, Node: v.node, Pool: v.pool, Pods: pods})
	if lastEvent.After(f.LastPodEvent) {
		f.LastPodEvent = lastEvent
	}
	if by := v.node.Annotations[terminate.CordonedByAnnotation]; terminate.Cordoned(v.node) && by != Reason {
		f.CordonedBy = by
		if by == "" {
			f.CordonedBy = "by another user"
		}
	}
	return f
}

// saveStatus writes lastPodEventTime and Consolidatable if they changed. Until a node is initialized its status is written by package join,
// with the pods that are bound to the node by then.
func (r *Reclaimer) saveStatus(ctx context.Context, v *view, d disruption.EmptyDecision) error {
	last := v.facts.LastPodEvent
	event := !v.facts.InitializedAt.IsZero() && last.Sub(v.claim.Status.LastPodEventTime.Time) >= statusEvery
	has := conditions.Claim(v.claim, karpv1.ConditionTypeConsolidatable)
	if !event && (d.Consolidatable && has.IsTrue() || !d.Consolidatable && has == nil) {
		return nil // As it is nearly always.
	}
	before := v.claim
	v.claim = before.DeepCopy()
	if event {
		v.claim.Status.LastPodEventTime = metav1.NewTime(last)
	}
	set := v.claim.StatusConditions()
	if d.Consolidatable {
		set.SetTrue(karpv1.ConditionTypeConsolidatable)
	} else if err := set.Clear(karpv1.ConditionTypeConsolidatable); err != nil {
		return err
	}
	if err := r.config.Client.Status().Patch(ctx, v.claim, nodeobj.ClaimStatus(before)); err != nil {
		return fmt.Errorf("writing status of NodeClaim %s: %w", v.claim.Name, err)
	}
	return nil
}
