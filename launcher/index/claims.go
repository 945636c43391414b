package index

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Claims reads NodeClaims as a cache has them. They are shared and must not be changed.
type Claims interface {
	// All returns the NodeClaims of the cluster, in no order.
	All(ctx context.Context) ([]*karpv1.NodeClaim, error)
}

// ListClaims reads NodeClaims with a client, and copies them.
func ListClaims(reader client.Reader) Claims { return listedClaims{reader} }

type listedClaims struct{ client.Reader }

// All implements Claims.
func (l listedClaims) All(ctx context.Context) ([]*karpv1.NodeClaim, error) {
	list := &karpv1.NodeClaimList{}
	if err := l.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing NodeClaims: %w", err)
	}
	return pointers(list.Items), nil
}

// SharedClaims reads NodeClaims from the store of their informer, and copies none. own returns what this process has written of a NodeClaim since, or
// the same. All returns an error if the informer has no store.
func SharedClaims(informers cache.Informers, own func(claim *karpv1.NodeClaim) *karpv1.NodeClaim) Claims {
	return sharedClaims{&store{informers: informers, of: &karpv1.NodeClaim{}}, own}
}

// sharedClaims is the store of the informer of NodeClaims.
type sharedClaims struct {
	*store

	own func(claim *karpv1.NodeClaim) *karpv1.NodeClaim
}

// All implements Claims.
func (s sharedClaims) All(ctx context.Context) ([]*karpv1.NodeClaim, error) {
	have, err := s.indexed(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading NodeClaims: %w", err)
	}
	out := typed[*karpv1.NodeClaim](have.List())
	for i, claim := range out {
		out[i] = s.own(claim)
	}
	return out, nil
}
