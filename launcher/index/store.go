package index

import (
	"context"
	"errors"
	"fmt"
	"sync"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// store is the store of an informer, with indexes beside those of the cache's clients.
type store struct {
	informers cache.Informers
	// of is an object of the informer's kind.
	of       client.Object
	indexers toolscache.Indexers
	// handler is called with each change; nil for none.
	handler toolscache.ResourceEventHandler

	mu sync.Mutex
	// have is the store with the indexes; nil before the first use.
	have toolscache.Indexer
}

// indexed returns the store once it has the indexes.
func (s *store) indexed(ctx context.Context) (toolscache.Indexer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.have != nil {
		return s.have, nil
	}
	informer, err := s.informers.GetInformer(ctx, s.of)
	if err != nil {
		return nil, err
	}
	shared, ok := informer.(toolscache.SharedIndexInformer)
	if !ok {
		return nil, errors.New("the informer has no store")
	}
	if err := shared.AddIndexers(s.indexers); err != nil {
		return nil, err
	}
	if s.handler != nil {
		if _, err := shared.AddEventHandler(s.handler); err != nil {
			return nil, err
		}
	}
	s.have = shared.GetIndexer()
	return s.have, nil
}

// all returns the objects of a store, in no order.
func all[T client.Object](ctx context.Context, s *store) ([]T, error) {
	have, err := s.indexed(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading all %T: %w", s.of, err)
	}
	return typed[T](have.List()), nil
}

// typed returns the objects of a store that are of a type: all of them in the store of its informer.
func typed[T any](found []any) []T {
	out := make([]T, 0, len(found))
	for _, obj := range found {
		if t, ok := obj.(T); ok {
			out = append(out, t)
		}
	}
	return out
}

// pointers returns pointers to the items of a list.
func pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}
