package roll

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/index"
)

// look says how the nodes of candidates stand; those without a Node are left out: they are ended by those who find that.
func (r *Roller) look(ctx context.Context, list []Candidate, policies *policyv1.PodDisruptionBudgetList, now time.Time) ([]Candidate, error) {
	budgets := disruption.ReadPodBudgets(policies.Items)
	out := list[:0]
	for _, c := range list {
		node := &corev1.Node{}
		err := r.config.Client.Get(ctx, client.ObjectKey{Name: c.Claim.Status.NodeName}, node)
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return nil, fmt.Errorf("get Node %s of NodeClaim %s: %w", c.Claim.Status.NodeName, c.Claim.Name, err)
		}
		bound := &corev1.PodList{}
		if err := r.config.Client.List(ctx, bound, client.MatchingFields{index.PodNodeName: node.Name}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("list pods of Node %s: %w", node.Name, err)
		}
		pods := make([]*corev1.Pod, 0, len(bound.Items))
		for i := range bound.Items {
			pods = append(pods, &bound.Items[i])
		}
		c.Node, c.Empty, c.Sick = node, disruption.Occupant(pods) == nil, !conditions.NodeReady(node)
		c.Protection = disruption.BlockOf(disruption.Candidate{Now: now, Node: node, Claim: c.Claim, Pods: pods}, budgets)
		out = append(out, c)
	}
	return out, nil
}
