package index

import (
	"context"
	"errors"
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
	s.have = shared.GetIndexer()
	return s.have, nil
}
