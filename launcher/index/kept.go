package index

import (
	"context"
	"hash/maphash"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/slipway-k8s/slipway/internal/deleted"
)

// PerNode keeps what a look at the whole cluster derives from the pods of each node until one of them changes: of tens of thousands of pods few change
// between two looks, and to read them all is most of what a look costs. It is for one goroutine; its zero value is ready.
type PerNode[T any] struct {
	// have is of this look and before of the one before it, by node.
	have, before map[string]kept[T]
}

// kept is what was derived when the pods of the node had changed so often.
type kept[T any] struct {
	changes uint64
	derived T
}

// Look begins a look at the cluster. What the look before it did not ask for is forgotten.
func (p *PerNode[T]) Look() {
	p.before, p.have = p.have, make(map[string]kept[T], len(p.have))
}

// On returns what derive makes of the pods that are bound to a node, or has made of the same pods. The pods are shared and must not be changed.
func (p *PerNode[T]) On(ctx context.Context, from Pods, node string, derive func(pods []*corev1.Pod) T) (T, error) {
	if p.have == nil {
		p.Look()
	}
	changes, known := from.Changes(ctx, node) // Before the pods: a change between the two is then noticed by the next look.
	for _, of := range []map[string]kept[T]{p.have, p.before} {
		if k, ok := of[node]; ok && known && k.changes == changes {
			p.have[node] = k
			return k.derived, nil
		}
	}
	pods, err := from.On(ctx, node)
	if err != nil {
		var none T
		return none, err
	}
	out := derive(pods)
	p.have[node] = kept[T]{changes, out}
	return out, nil
}

// changeCounts counts the changes of pods on nodes, each in the count of its node's name. Nodes whose names share a count are looked at too often, and
// never too seldom. Its size is the same for any number of nodes that come and go.
type changeCounts struct {
	seed   maphash.Seed
	counts [1 << 14]atomic.Uint64
}

func (c *changeCounts) of(node string) *atomic.Uint64 {
	return &c.counts[maphash.String(c.seed, node)%uint64(len(c.counts))]
}

// handler counts the changes of an informer of pods. The informer calls it after its store has changed.
func (c *changeCounts) handler() toolscache.ResourceEventHandler {
	count := func(obj any) {
		obj = deleted.Object(obj)
		if pod, ok := obj.(*corev1.Pod); ok && pod.Spec.NodeName != "" {
			c.of(pod.Spec.NodeName).Add(1)
		}
	}
	return toolscache.ResourceEventHandlerFuncs{AddFunc: count, DeleteFunc: count, UpdateFunc: func(before, now any) {
		count(before)
		count(now)
	}}
}
