package roll

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
)

// look reads the nodes and pods of candidates. It drops candidates without a Node, which other controllers terminate, and those with
// pods that are not initialized.
func (r *Roller) look(ctx context.Context, list []Candidate, budgets disruption.PodBudgets, now time.Time) ([]Candidate, error) {
	out := list[:0]
	for _, c := range list {
		node := &corev1.Node{}
		err := r.config.Client.Get(ctx, client.ObjectKey{Name: c.Claim.Status.NodeName}, node, client.UnsafeDisableDeepCopy)
		switch {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return nil, fmt.Errorf("getting Node %s of NodeClaim %s: %w", c.Claim.Status.NodeName, c.Claim.Name, err)
		}
		pods, err := r.config.Pods.On(ctx, node.Name)
		if err != nil {
			return nil, err
		}
		c.Node, c.Empty, c.Unready = node, disruption.Occupant(pods) == nil, !conditions.NodeReady(node)
		if !c.Empty && !conditions.ClaimIs(c.Claim, karpv1.ConditionTypeInitialized) {
			continue // Its pods run, and no budget counts it.
		}
		candidate := disruption.Candidate{Now: now, Node: node, Claim: c.Claim, Pods: pods, DisruptBare: r.config.DisruptBare}
		c.Protection = disruption.BlockOf(candidate, budgets)
		out = append(out, c)
	}
	return out, nil
}
