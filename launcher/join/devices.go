package join

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/index"
)

// requestedDrivers returns the DRA drivers that the claim was planned for.
func requestedDrivers(claim *karpv1.NodeClaim) []string {
	var out []string
	for name := range strings.SplitSeq(claim.Annotations[karpv1.DRADriversAnnotationKey], ",") {
		if name = strings.TrimSpace(name); name != "" {
			out = append(out, name)
		}
	}
	return out
}

// unpublished returns one of the drivers that has no complete pool on the node yet. A pool is complete once all slices of its latest
// generation are there.
func unpublished(drivers []string, list []*resourcev1.ResourceSlice) string {
	if len(drivers) == 0 {
		return ""
	}
	type pool struct{ driver, name string }
	type seen struct{ generation, want, have int64 }
	pools := map[pool]seen{}
	for _, s := range list {
		key, of := pool{s.Spec.Driver, s.Spec.Pool.Name}, s.Spec.Pool
		at, known := pools[key]
		switch {
		case !known || of.Generation > at.generation:
			pools[key] = seen{of.Generation, of.ResourceSliceCount, 1}
		case of.Generation == at.generation:
			at.have++
			pools[key] = at
		}
	}
	complete := sets.New[string]()
	for key, at := range pools {
		if at.want > 0 && at.have == at.want {
			complete.Insert(key.driver)
		}
	}
	if i := slices.IndexFunc(drivers, func(d string) bool { return !complete.Has(d) }); i >= 0 {
		return drivers[i]
	}
	return ""
}

// slicesOf returns the ResourceSlices of the node. They are the cache's.
func slicesOf(ctx context.Context, from client.Reader, node string) ([]*resourcev1.ResourceSlice, error) {
	var list resourcev1.ResourceSliceList
	if err := from.List(ctx, &list, client.MatchingFields{index.SliceNode: node}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing ResourceSlices of Node %s: %w", node, err)
	}
	out := make([]*resourcev1.ResourceSlice, len(list.Items))
	for i := range list.Items {
		out[i] = &list.Items[i]
	}
	return out, nil
}

// onSlices returns what of returns for the Node that a ResourceSlice is on.
func onSlices(from client.Reader, of handler.MapFunc) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		slice, ok := obj.(*resourcev1.ResourceSlice)
		if !ok || index.NodeOfSlice(slice) == "" {
			return nil
		}
		node := &corev1.Node{}
		if err := from.Get(ctx, client.ObjectKey{Name: index.NodeOfSlice(slice)}, node); err != nil {
			return nil // The Node is gone, or its own event comes.
		}
		return of(ctx, node)
	}
}
