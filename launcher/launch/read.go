package launch

import (
	"context"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// readAgain returns the claims of these names as the API server has them now, in the same order; nil for one that does not exist.
func readAgain(ctx context.Context, reader client.Reader, claims []*karpv1.NodeClaim) ([]*karpv1.NodeClaim, error) {
	read := make(map[*karpv1.NodeClaim]*karpv1.NodeClaim, len(claims))
	for _, c := range claims {
		read[c] = &karpv1.NodeClaim{}
	}
	results := each(claims, func(c *karpv1.NodeClaim) error {
		return reader.Get(ctx, client.ObjectKeyFromObject(c), read[c])
	})
	out := make([]*karpv1.NodeClaim, len(claims))
	for i, c := range claims {
		switch {
		case results[i] == nil:
			out[i] = read[c]
		case !apierrors.IsNotFound(results[i]):
			return nil, fmt.Errorf("reading NodeClaim %s: %w", c.Name, results[i])
		}
	}
	return out, nil
}

// undeleted returns the claims without those that the cache shows as deleted or being deleted. The cache may not have a claim that was just
// created.
func undeleted(ctx context.Context, cache client.Reader, claims []*karpv1.NodeClaim) []*karpv1.NodeClaim {
	return slices.DeleteFunc(slices.Clone(claims), func(c *karpv1.NodeClaim) bool {
		cached := &karpv1.NodeClaim{}
		err := cache.Get(ctx, client.ObjectKeyFromObject(c), cached)
		return err == nil && (cached.UID != c.UID || !cached.DeletionTimestamp.IsZero())
	})
}

// each calls f for all claims concurrently and returns the results in their order.
func each(claims []*karpv1.NodeClaim, f func(*karpv1.NodeClaim) error) []error {
	out := make([]error, len(claims))
	var wg sync.WaitGroup
	for i, c := range claims {
		wg.Go(func() { out[i] = f(c) })
	}
	wg.Wait()
	return out
}
