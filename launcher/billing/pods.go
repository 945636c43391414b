package billing

import (
	"context"
	"fmt"

	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/bill"
	"github.com/slipway-k8s/slipway/launcher/index"
)

// podsOn returns what the bill needs of the pods of the claims' Nodes. A claim without a Node has none.
func podsOn(ctx context.Context, from index.Pods, memory *index.PerNode[[]bill.Pod], claims []*karpv1.NodeClaim) (map[string][]bill.Pod, error) {
	memory.Look()
	out := make(map[string][]bill.Pod, len(claims))
	for _, claim := range claims {
		name := claim.Status.NodeName
		if name == "" {
			continue
		}
		pods, err := memory.On(ctx, from, name, PodsOf)
		if err != nil {
			return nil, fmt.Errorf("observing the cluster for the bill: %w", err)
		}
		out[name] = pods
	}
	return out, nil
}
