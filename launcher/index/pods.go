package index

import (
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// PodsOn returns the pods that are bound to a node, as a cache has them. They are shared and must not be changed.
type PodsOn func(ctx context.Context, node string) ([]*corev1.Pod, error)

// ListPods reads pods with a client that has the index PodNodeName, which copies each of them.
func ListPods(reader client.Reader) PodsOn {
	return func(ctx context.Context, node string) ([]*corev1.Pod, error) {
		list := &corev1.PodList{}
		if err := reader.List(ctx, list, client.MatchingFields{PodNodeName: node}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing pods of Node %s: %w", node, err)
		}
		out := make([]*corev1.Pod, len(list.Items))
		for i := range list.Items {
			out[i] = &list.Items[i]
		}
		return out, nil
	}
}

// podsOnNode is the name of the index of SharedPods.
const podsOnNode = "pods-on-node"

// SharedPods reads pods from the store of their informer, and copies none: with tens of thousands of pods, the copies of one look at the cluster are
// the launcher's largest garbage. It returns an error if the informer has no store.
func SharedPods(informers cache.Informers) PodsOn {
	shared := &sharedPods{informers: informers}
	return func(ctx context.Context, node string) ([]*corev1.Pod, error) {
		store, err := shared.indexed(ctx)
		if err != nil {
			return nil, fmt.Errorf("indexing pods by node: %w", err)
		}
		found, err := store.ByIndex(podsOnNode, node)
		if err != nil {
			return nil, fmt.Errorf("reading pods of Node %s: %w", node, err)
		}
		out := make([]*corev1.Pod, 0, len(found))
		for _, obj := range found {
			if pod, ok := obj.(*corev1.Pod); ok {
				out = append(out, pod)
			}
		}
		return out, nil
	}
}

// sharedPods is the store of the informer of pods.
type sharedPods struct {
	informers cache.Informers

	mu sync.Mutex
	// store has the index; nil before the first use.
	store toolscache.Indexer
}

// indexed returns the store once it has the index.
func (s *sharedPods) indexed(ctx context.Context) (toolscache.Indexer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.store != nil {
		return s.store, nil
	}
	informer, err := s.informers.GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		return nil, err
	}
	shared, ok := informer.(toolscache.SharedIndexInformer)
	if !ok {
		return nil, errors.New("the informer has no store")
	}
	err = shared.AddIndexers(toolscache.Indexers{podsOnNode: func(obj any) ([]string, error) {
		pod, ok := obj.(*corev1.Pod)
		if !ok {
			return nil, nil
		}
		return one(pod.Spec.NodeName), nil
	}})
	if err != nil {
		return nil, err
	}
	s.store = shared.GetIndexer()
	return s.store, nil
}
