package voluntary

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/disruption"
	"github.com/slipway-k8s/slipway/launcher/budget"
	"github.com/slipway-k8s/slipway/launcher/index"
)

// Observe reads NodePools, NodeClaims and Nodes, all from the cache. Each move does so when it begins.
func Observe(cache client.Reader, allClaims index.Claims, allNodes index.Nodes) budget.Observe {
	return func(ctx context.Context) (budget.View, error) {
		pools := &karpv1.NodePoolList{}
		if err := cache.List(ctx, pools, client.UnsafeDisableDeepCopy); err != nil {
			return budget.View{}, fmt.Errorf("listing NodePools: %w", err)
		}
		claims, err := allClaims.All(ctx)
		if err != nil {
			return budget.View{}, err
		}
		nodes, err := allNodes.All(ctx)
		if err != nil {
			return budget.View{}, err
		}
		view := budget.View{Now: time.Now(), Pools: make(map[string]*karpv1.NodePool, len(pools.Items)), Nodes: make([]disruption.BudgetNode, 0, len(claims))}
		for i := range pools.Items {
			view.Pools[pools.Items[i].Name] = &pools.Items[i]
		}
		byName := make(map[string]*corev1.Node, len(nodes))
		for _, node := range nodes {
			byName[node.Name] = node
		}
		for _, claim := range claims {
			view.Nodes = append(view.Nodes, disruption.BudgetNodeOf(claim, byName[claim.Status.NodeName]))
		}
		return view, nil
	}
}
