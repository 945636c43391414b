package observe

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/view"
)

// Recorder records the histories of a cluster's pods, Nodes and NodeClaims. It is safe for concurrent use.
type Recorder struct {
	informers cache.Cache

	mu     sync.Mutex
	pods   map[types.UID]*Pod
	nodes  map[types.UID]*Node
	claims map[types.UID]*Claim
	change chan struct{}
}

// New returns a recorder of the cluster that config names. Start starts it.
func New(config *rest.Config) (*Recorder, error) {
	informers, err := cache.New(config, cache.Options{Scheme: scheme.Scheme})
	if err != nil {
		return nil, fmt.Errorf("watching the cluster: %w", err)
	}
	return &Recorder{
		informers: informers,
		pods:      map[types.UID]*Pod{}, nodes: map[types.UID]*Node{}, claims: map[types.UID]*Claim{},
		change: make(chan struct{}),
	}, nil
}

// Start starts recording until ctx ends. It returns when all existing objects are recorded.
func (r *Recorder) Start(ctx context.Context) error {
	for _, obj := range []client.Object{&corev1.Pod{}, &corev1.Node{}, &karpv1.NodeClaim{}} {
		informer, err := r.informers.GetInformer(ctx, obj)
		if err != nil {
			return err
		}
		_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    r.seen,
			UpdateFunc: func(_, obj any) { r.seen(obj) },
			DeleteFunc: r.gone,
		})
		if err != nil {
			return err
		}
	}
	failed := make(chan error, 1)
	go func() { failed <- r.informers.Start(ctx) }()
	if r.informers.WaitForCacheSync(ctx) {
		return nil
	}
	select {
	case err := <-failed:
		return err
	default:
		return errors.New("listing the cluster's objects: the watches ended before they were complete")
	}
}

func (r *Recorder) seen(obj any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch o := obj.(type) {
	case *corev1.Pod:
		entry(r.pods, o.UID).update(o, momentOf(o))
	case *corev1.Node:
		entry(r.nodes, o.UID).update(o, momentOf(o))
	case *karpv1.NodeClaim:
		entry(r.claims, o.UID).update(o, momentOf(o))
	}
	r.changed()
}

func (r *Recorder) gone(obj any) {
	if unknown, ok := obj.(toolscache.DeletedFinalStateUnknown); ok {
		obj = unknown.Obj
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch o := obj.(type) {
	case *corev1.Pod:
		entry(r.pods, o.UID).Deleted.note(true, momentOf(o))
	case *corev1.Node:
		entry(r.nodes, o.UID).Deleted.note(true, momentOf(o))
	case *karpv1.NodeClaim:
		entry(r.claims, o.UID).Deleted.note(true, momentOf(o))
	}
	r.changed()
}

func entry[T any](m map[types.UID]*T, uid types.UID) *T {
	if m[uid] == nil {
		m[uid] = new(T)
	}
	return m[uid]
}

func (r *Recorder) changed() {
	close(r.change)
	r.change = make(chan struct{})
}

// Changed returns a channel that is closed at the next change.
func (r *Recorder) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.change
}

// Pods returns the histories of all pods, including deleted ones, in the order of their creation.
func (r *Recorder) Pods() []Pod {
	return snapshot(r, r.pods, func(p *Pod) Moment { return p.Created })
}

// Nodes returns the histories of all Nodes, including deleted ones, in the order of their creation.
func (r *Recorder) Nodes() []Node {
	return snapshot(r, r.nodes, func(n *Node) Moment { return n.Created })
}

// Claims returns the histories of all NodeClaims, including deleted ones, in the order of their creation.
func (r *Recorder) Claims() []Claim {
	return snapshot(r, r.claims, func(c *Claim) Moment { return c.Created })
}

func snapshot[T any](r *Recorder, m map[types.UID]*T, created func(*T) Moment) []T {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := slices.SortedFunc(maps.Values(m), func(a, b *T) int { return created(a).At.Compare(created(b).At) })
	out := make([]T, len(all))
	for i, item := range all {
		out[i] = *item
	}
	return out
}

// Forget drops the histories of deleted objects, for runs that last long.
func (r *Recorder) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.pods, func(_ types.UID, p *Pod) bool { return p.Deleted.Seen() })
	maps.DeleteFunc(r.nodes, func(_ types.UID, n *Node) bool { return n.Deleted.Seen() })
	maps.DeleteFunc(r.claims, func(_ types.UID, c *Claim) bool { return c.Deleted.Seen() })
}

// Overview returns what exists now, as `slipway status` shows it, with the pods of one namespace counted.
func (r *Recorder) Overview(namespace string) view.Overview {
	in := view.Objects{Now: time.Now(), Namespace: namespace}
	for _, p := range r.Pods() {
		if !p.Deleted.Seen() {
			in.Pods = append(in.Pods, p.Object)
		}
	}
	for _, n := range r.Nodes() {
		if !n.Deleted.Seen() {
			in.Nodes = append(in.Nodes, n.Object)
		}
	}
	for _, c := range r.Claims() {
		if !c.Deleted.Seen() {
			in.NodeClaims = append(in.NodeClaims, c.Object)
		}
	}
	return view.New(in)
}

// Await waits until done returns true. It calls done at every change and twice a second, since done may read more than is
// recorded. If ctx ends first, the error names what.
func (r *Recorder) Await(ctx context.Context, what string, done func() bool) error {
	for {
		change := r.Changed()
		if done() {
			return nil
		}
		select {
		case <-change:
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w", what, ctx.Err())
		}
	}
}
