package webapi

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpapis "sigs.k8s.io/karpenter/pkg/apis"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/view"
)

// Indexers returns the store of an informer, once it is filled: that of pods, Nodes, NodeClaims or NodePools. Pods are indexed by namespace
// (cache.NamespaceIndex of client-go).
type Indexers func(ctx context.Context, kind client.Object) (toolscache.Indexer, error)

// FromCache returns the stores of a manager's cache.
func FromCache(c cache.Cache) Indexers {
	return func(ctx context.Context, kind client.Object) (toolscache.Indexer, error) {
		informer, err := c.GetInformer(ctx, kind)
		if err != nil {
			return nil, err
		}
		shared, ok := informer.(toolscache.SharedIndexInformer)
		if !ok {
			return nil, errors.New("the cache has an informer without an index")
		}
		return shared.GetIndexer(), nil
	}
}

// source reads informers without copying: a list of a hundred thousand pods that is copied takes a hundred megabytes.
type source struct{ indexers Indexers }

// objects returns what a view of the pods of one namespace shows; empty means all namespaces.
func (s source) objects(ctx context.Context, namespace string) (view.Objects, error) {
	out, err := s.nodes(ctx)
	if err != nil {
		return out, err
	}
	out.Namespace = namespace
	pods, err := s.indexer(ctx, &corev1.Pod{})
	if err != nil {
		return out, err
	}
	var list []any
	if namespace == "" {
		list = pods.List()
	} else if list, err = pods.ByIndex(toolscache.NamespaceIndex, namespace); err != nil {
		return out, err
	}
	pools, err := s.indexer(ctx, &karpv1.NodePool{})
	if err != nil {
		return out, err
	}
	out.Pods, out.NodePools = all[corev1.Pod](list), all[karpv1.NodePool](pools.List())
	return out, nil
}

// nodes returns the Nodes and NodeClaims alone.
func (s source) nodes(ctx context.Context) (view.Objects, error) {
	nodes, err := s.indexer(ctx, &corev1.Node{})
	if err != nil {
		return view.Objects{}, err
	}
	claims, err := s.indexer(ctx, &karpv1.NodeClaim{})
	if err != nil {
		return view.Objects{}, err
	}
	return view.Objects{Nodes: all[corev1.Node](nodes.List()), NodeClaims: all[karpv1.NodeClaim](claims.List())}, nil
}

// pod returns a pod, or the API server's error for one that does not exist.
func (s source) pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	pods, err := s.indexer(ctx, &corev1.Pod{})
	if err != nil {
		return nil, err
	}
	found, ok, err := pods.GetByKey(namespace + "/" + name)
	if err != nil {
		return nil, err
	}
	if pod, is := found.(*corev1.Pod); ok && is {
		return pod, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, name)
}

// node returns the NodeClaim with the name, or whose node has it, and its node, nil while there is none; or the API server's error where there is
// no such NodeClaim.
func (s source) node(ctx context.Context, name string) (*karpv1.NodeClaim, *corev1.Node, error) {
	in, err := s.nodes(ctx)
	if err != nil {
		return nil, nil, err
	}
	claim := view.ClaimNamed(name, in.NodeClaims)
	if claim == nil {
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Group: karpapis.Group, Resource: "nodeclaims"}, name)
	}
	return claim, view.NodeOf(claim, in.Nodes), nil
}

const (
	// mostEvents bounds the Events of a pod that are read, and eventsTimeout how long that may take: the answer is sent without them then.
	mostEvents, eventsTimeout = 200, 3 * time.Second
)

// podEventsOf lists Events about pods at the API server. The launcher keeps none in memory.
func podEventsOf(clients kubernetes.Interface) func(context.Context, *corev1.Pod) ([]corev1.Event, error) {
	return func(ctx context.Context, pod *corev1.Pod) ([]corev1.Event, error) {
		ctx, cancel := context.WithTimeout(ctx, eventsTimeout)
		defer cancel()
		list, err := clients.CoreV1().Events(pod.Namespace).List(ctx, metav1.ListOptions{
			FieldSelector: fields.OneTermEqualSelector("involvedObject.uid", string(pod.UID)).String(), Limit: mostEvents,
		})
		if err != nil {
			return nil, err
		}
		return list.Items, nil
	}
}

// indexer returns the store of the kind.
func (s source) indexer(ctx context.Context, kind client.Object) (toolscache.Indexer, error) {
	store, err := s.indexers(ctx, kind)
	if err != nil {
		return nil, fmt.Errorf("reading %T: %w", kind, err)
	}
	return store, nil
}

// all returns objects of a store.
func all[T any](list []any) []*T {
	out := make([]*T, 0, len(list))
	for _, object := range list {
		if o, ok := object.(*T); ok {
			out = append(out, o)
		}
	}
	return out
}
