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
)

// Observe reads NodePools, NodeClaims and Nodes from the cache.
func Observe(cache client.Reader) budget.Observe {
	return func(ctx context.Context) (budget.View, error) {
		pools, claims, nodes := &karpv1.NodePoolList{}, &karpv1.NodeClaimList{}, &corev1.NodeList{}
		for _, list := range []client.ObjectList{pools, claims, nodes} {
			if err := cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
				return budget.View{}, fmt.Errorf("list %T: %w", list, err)
			}
		}
		view := budget.View{Now: time.Now(), Pools: make(map[string]*karpv1.NodePool, len(pools.Items)), Nodes: make([]disruption.BudgetNode, 0, len(claims.Items))}
		for i := range pools.Items {
			view.Pools[pools.Items[i].Name] = &pools.Items[i]
		}
		byName := make(map[string]*corev1.Node, len(nodes.Items))
		for i := range nodes.Items {
			byName[nodes.Items[i].Name] = &nodes.Items[i]
		}
		for i := range claims.Items {
			view.Nodes = append(view.Nodes, disruption.BudgetNodeOf(&claims.Items[i], byName[claims.Items[i].Status.NodeName]))
		}
		return view, nil
	}
}
