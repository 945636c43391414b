package index

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Objects reads the objects of one kind as a cache has them. They are shared and must not be changed.
type Objects[T client.Object] interface {
	// All returns those of the cluster, in no order.
	All(ctx context.Context) ([]T, error)
}

// Claims reads NodeClaims.
type Claims = Objects[*karpv1.NodeClaim]

// Nodes reads Nodes.
type Nodes = Objects[*corev1.Node]

// ListClaims reads NodeClaims with a client, and copies them.
func ListClaims(reader client.Reader) Claims { return listedClaims{reader} }

type listedClaims struct{ client.Reader }

// All implements Claims.
func (l listedClaims) All(ctx context.Context) ([]*karpv1.NodeClaim, error) {
	list := &karpv1.NodeClaimList{}
	return listed(&list.Items, l.List(ctx, list, client.UnsafeDisableDeepCopy), "NodeClaims")
}

// ListNodes reads Nodes with a client, and copies them.
func ListNodes(reader client.Reader) Nodes { return listedNodes{reader} }

type listedNodes struct{ client.Reader }

// All implements Nodes.
func (l listedNodes) All(ctx context.Context) ([]*corev1.Node, error) {
	list := &corev1.NodeList{}
	return listed(&list.Items, l.List(ctx, list, client.UnsafeDisableDeepCopy), "Nodes")
}

// listed returns pointers to the items of a list, or the error of reading it.
func listed[T any](items *[]T, err error, what string) ([]*T, error) {
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", what, err)
	}
	return pointers(*items), nil
}

// SharedClaims reads NodeClaims from the store of their informer, and copies none. own returns what this process has written of a NodeClaim since, or
// the same. All returns an error if the informer has no store.
func SharedClaims(informers cache.Informers, own func(claim *karpv1.NodeClaim) *karpv1.NodeClaim) Claims {
	return shared[*karpv1.NodeClaim]{&store{informers: informers, of: &karpv1.NodeClaim{}}, own}
}

// SharedNodes does the same with Nodes.
func SharedNodes(informers cache.Informers, own func(node *corev1.Node) *corev1.Node) Nodes {
	return shared[*corev1.Node]{&store{informers: informers, of: &corev1.Node{}}, own}
}

// shared is the store of an informer of the type.
type shared[T client.Object] struct {
	*store

	own func(object T) T
}

// All implements Objects.
func (s shared[T]) All(ctx context.Context) ([]T, error) {
	out, err := all[T](ctx, s.store)
	for i, object := range out {
		out[i] = s.own(object)
	}
	return out, err
}
