package index

import (
	"context"
	"errors"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// Cache reads the objects of a cache of which there are thousands.
type Cache struct {
	// Pods reads pods.
	Pods Pods
	// Claims reads NodeClaims.
	Claims Claims
	// Nodes reads Nodes.
	Nodes Nodes
}

// List reads all of them with a client that has the index PodNodeName, and copies them.
func List(reader client.Reader) Cache {
	return Cache{Pods: ListPods(reader), Claims: ListClaims(reader), Nodes: ListNodes(reader)}
}

// Complete reports whether no field is nil.
func (c Cache) Complete() bool { return c.Pods != nil && c.Claims != nil && c.Nodes != nil }

// Fleet returns all NodeClaims and all Nodes, in no order. They are shared and must not be changed.
func (c Cache) Fleet(ctx context.Context) ([]*karpv1.NodeClaim, []*corev1.Node, error) {
	claims, errClaims := c.Claims.All(ctx)
	nodes, errNodes := c.Nodes.All(ctx)
	return claims, nodes, errors.Join(errClaims, errNodes)
}
