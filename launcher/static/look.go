package static

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
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
	claims := &karpv1.NodeClaimList{}
	if err := k.config.Client.List(ctx, claims, client.MatchingFields{index.ClaimNodePool: pool.Name}, client.UnsafeDisableDeepCopy); err != nil {
		return f, fmt.Errorf("listing NodeClaims: %w", err)
	}
	existing := map[types.UID]bool{}
	for i := range claims.Items {
		claim := &claims.Items[i]
		existing[claim.UID] = true
		f.Nodes = append(f.Nodes, Node{Claim: claim, Deleting: claim.DeletionTimestamp != nil || k.gone[pool.UID][claim.UID]})
	}
	maps.DeleteFunc(k.gone[pool.UID], func(uid types.UID, _ bool) bool { return !existing[uid] })
	f.Scaled = k.scaled(pool.UID, f)
	return f, k.examine(ctx, f, now)
}

// examine adds what counts of the nodes of which some may have to go: of all where there are more than asked for, and of drifted ones. Of the others
// neither Nodes nor pods are read, once a second.
func (k *Keeper) examine(ctx context.Context, f Facts, now time.Time) error {
	surplus := active(f.Nodes) > f.Replicas
	var budgets disruption.PodBudgets
	for i, n := range f.Nodes {
		if n.Deleting || n.Claim.Status.NodeName == "" || !surplus && !n.drifted() {
			continue
		}
		var err error
		if budgets == nil {
			if budgets, err = k.budgets.All(ctx, k.config.Client); err != nil {
				return err
			}
		}
		if f.Nodes[i], err = k.node(ctx, n, budgets, now); err != nil {
			return err
		}
	}
	return nil
}

// active returns how many of the nodes do not terminate.
func active(nodes []Node) int64 {
	out := int64(0)
	for _, n := range nodes {
		if !n.Deleting {
			out++
		}
	}
	return out
}

// scaled returns Facts.Scaled, as far as this process has seen it.
func (k *Keeper) scaled(pool types.UID, f Facts) bool {
	if active(f.Nodes) <= f.Replicas {
		k.reached[pool] = f.Replicas
	}
	reached, ok := k.reached[pool]
	return !ok || reached != f.Replicas
}

// node adds what counts of a NodeClaim's node.
func (k *Keeper) node(ctx context.Context, out Node, budgets disruption.PodBudgets, now time.Time) (Node, error) {
	claim, node := out.Claim, &corev1.Node{}
	err := k.config.Client.Get(ctx, client.ObjectKey{Name: claim.Status.NodeName}, node, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		return out, nil // Others terminate a NodeClaim whose Node is gone.
	}
	if err != nil {
		return out, fmt.Errorf("getting Node %s of NodeClaim %s: %w", claim.Status.NodeName, claim.Name, err)
	}
	pods, err := k.config.Pods.On(ctx, node.Name)
	if err != nil {
		return out, err
	}
	for _, pod := range pods {
		if disruption.Occupies(pod) {
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
