package static

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/internal/window"
	"github.com/slipway-k8s/slipway/launcher/index"
)

// nodesResource is the limit of the number of nodes.
const nodesResource = corev1.ResourceName("nodes")

// look reads the facts about a NodePool from the cache.
func (k *Keeper) look(ctx context.Context, pool *karpv1.NodePool, drifts int) (Facts, error) {
	now := time.Now()
	f := Facts{Replicas: window.Replicas(pool.Annotations, *pool.Spec.Replicas, now), Limit: NoLimit, Drifts: int64(drifts)}
	if limit, ok := window.Limits(pool.Annotations, corev1.ResourceList(pool.Spec.Limits), now)[nodesResource]; ok {
		f.Limit = limit.Value()
	}
	claims, policies := &karpv1.NodeClaimList{}, &policyv1.PodDisruptionBudgetList{}
	if err := k.config.Client.List(ctx, claims, client.MatchingFields{index.ClaimNodePool: pool.Name}); err != nil {
		return f, fmt.Errorf("listing NodeClaims: %w", err)
	}
	if err := k.config.Client.List(ctx, policies); err != nil {
		return f, fmt.Errorf("listing PodDisruptionBudgets: %w", err)
	}
	budgets, existing := disruption.ReadPodBudgets(policies.Items), map[types.UID]bool{}
	for i := range claims.Items {
		claim := &claims.Items[i]
		existing[claim.UID] = true
		out := Node{Claim: claim, Deleting: claim.DeletionTimestamp != nil || k.gone[pool.UID][claim.UID]}
		node, err := k.node(ctx, out, budgets, now)
		if err != nil {
			return f, err
		}
		f.Nodes = append(f.Nodes, node)
	}
	maps.DeleteFunc(k.gone[pool.UID], func(uid types.UID, _ bool) bool { return !existing[uid] })
	f.Scaled = k.scaled(pool.UID, f)
	return f, nil
}

// scaled returns Facts.Scaled, as far as this process has seen it.
func (k *Keeper) scaled(pool types.UID, f Facts) bool {
	active := int64(0)
	for _, n := range f.Nodes {
		if !n.Deleting {
			active++
		}
	}
	if active <= f.Replicas {
		k.reached[pool] = f.Replicas
	}
	reached, ok := k.reached[pool]
	return !ok || reached != f.Replicas
}

// node adds what counts of a NodeClaim's node.
func (k *Keeper) node(ctx context.Context, out Node, budgets disruption.PodBudgets, now time.Time) (Node, error) {
	claim := out.Claim
	if out.Deleting || claim.Status.NodeName == "" {
		return out, nil
	}
	node := &corev1.Node{}
	err := k.config.Client.Get(ctx, client.ObjectKey{Name: claim.Status.NodeName}, node)
	if apierrors.IsNotFound(err) {
		return out, nil // Others terminate a NodeClaim whose Node is gone.
	}
	if err != nil {
		return out, fmt.Errorf("getting Node %s of NodeClaim %s: %w", claim.Status.NodeName, claim.Name, err)
	}
	bound := &corev1.PodList{}
	if err := k.config.Client.List(ctx, bound, client.MatchingFields{index.PodNodeName: node.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return out, fmt.Errorf("listing pods of Node %s: %w", node.Name, err)
	}
	pods := make([]*corev1.Pod, 0, len(bound.Items))
	for i := range bound.Items {
		pods = append(pods, &bound.Items[i])
		if disruption.Occupies(&bound.Items[i]) {
			out.Pods++
		}
	}
	candidate := disruption.Candidate{Now: now, Node: node, Claim: claim, Pods: pods, DisruptBare: true}
	out.Protected = disruption.BlockOf(candidate, budgets).Why != ""
	candidate.DisruptBare = k.config.DisruptBare
	block := disruption.BlockOf(candidate, budgets)
	// A termination grace period limits the protection that pods have of a drifted node, as in Karpenter.
	out.Blocked = block.Why != "" && (!block.ByPods || claim.Spec.TerminationGracePeriod == nil)
	return out, nil
}
