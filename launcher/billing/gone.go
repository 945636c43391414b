package billing

import (
	"context"
	"fmt"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// mostGone bounds the NodeClaims that are kept from one observation to the next.
const mostGone = 10000

// gone keeps the NodeClaims that were deleted since the last observation: their nodes are charged until they ended. It is safe for concurrent use.
type gone struct {
	mu   sync.Mutex
	list []karpv1.NodeClaim
}

// follow keeps the NodeClaims that the informer reports as deleted, until ctx ends.
func (g *gone) follow(ctx context.Context, informers cache.Informers) error {
	informer, err := informers.GetInformer(ctx, &karpv1.NodeClaim{})
	if err != nil {
		return fmt.Errorf("observing deleted NodeClaims for the bill: %w", err)
	}
	handle, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{DeleteFunc: g.add})
	if err != nil {
		return fmt.Errorf("observing deleted NodeClaims for the bill: %w", err)
	}
	context.AfterFunc(ctx, func() { _ = informer.RemoveEventHandler(handle) }) // An informer that has stopped has no handlers.
	return nil
}

// add keeps a NodeClaim. One whose instance was not terminated by the launcher ends now.
func (g *gone) add(obj any) {
	if last, unknown := obj.(toolscache.DeletedFinalStateUnknown); unknown {
		obj = last.Obj
	}
	claim, ok := obj.(*karpv1.NodeClaim)
	if !ok || claim.Status.ProviderID == "" {
		return
	}
	claim = claim.DeepCopy()
	if ended(claim).IsZero() {
		claim.StatusConditions().SetTrue(karpv1.ConditionTypeInstanceTerminating)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.list) < mostGone {
		g.list = append(g.list, *claim)
	}
}

// take returns the NodeClaims that were deleted since the last call.
func (g *gone) take() []karpv1.NodeClaim {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := g.list
	g.list = nil
	return out
}
