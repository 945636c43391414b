package billing

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/internal/deleted"
)

// mostGone bounds the NodeClaims that are kept from one observation to the next.
const mostGone = 10000

// reasonTaken is the reason of the condition InstanceTerminating of a NodeClaim that was deleted while the launcher had not terminated its instance.
const reasonTaken = "TakenAway"

// gone keeps the NodeClaims that were deleted since the last observation: their nodes are charged until they ended. It is safe for concurrent use.
type gone struct {
	mu   sync.Mutex
	list []*karpv1.NodeClaim
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

// add keeps a NodeClaim.
func (g *gone) add(obj any) {
	obj = deleted.Object(obj)
	claim, ok := obj.(*karpv1.NodeClaim)
	if !ok || claim.Status.ProviderID == "" {
		return
	}
	last := Deleted(claim, time.Now())
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.list) < mostGone {
		g.list = append(g.list, last)
	}
}

// Deleted returns a NodeClaim that was deleted at a time, as Look takes it once more. EC2 has terminated its instance if the launcher had not.
func Deleted(claim *karpv1.NodeClaim, at time.Time) *karpv1.NodeClaim {
	claim = claim.DeepCopy()
	if ended(claim).IsZero() {
		claim.StatusConditions().SetTrueWithReason(karpv1.ConditionTypeInstanceTerminating, reasonTaken, "EC2 terminated the instance")
		for i := range claim.Status.Conditions {
			if c := &claim.Status.Conditions[i]; c.Type == karpv1.ConditionTypeInstanceTerminating {
				c.LastTransitionTime = metav1.NewTime(at)
			}
		}
	}
	return claim
}

// putBack keeps NodeClaims that were taken and not observed.
func (g *gone) putBack(list []*karpv1.NodeClaim) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.list = append(list, g.list...)
	g.list = g.list[:min(len(g.list), mostGone)]
}

// take returns the NodeClaims that were deleted since the last call.
func (g *gone) take() []*karpv1.NodeClaim {
	g.mu.Lock()
	defer g.mu.Unlock()
	out := g.list
	g.list = nil
	return out
}
