// Package ownwrites makes the launcher read what it has just written. The cache of a manager shows a write only once the watch has brought it back.
// A controller that reads the version before it writes the same thing again: in a wave of nodes every third write of a NodeClaim's status failed
// with a conflict, and others were empty.
package ownwrites

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
)

// kept is how long a write is remembered: far longer than a watch takes. What the cache has of the object counts after that, as without this package.
const kept = 10 * time.Second

// Client is a client that reads from a cache, but its own writes of NodeClaims and Nodes at once. An object that the cache does not have stays not
// found: only the API server says what exists. Lists select by the cache's version of an object. It is safe for concurrent use.
type Client struct {
	client.Client

	mu sync.Mutex
	// written are the objects as the API server returned them, by UID, that the cache may not have yet; order has their UIDs by time.
	written map[types.UID]write
	order   []written
}

// write is an object after a write.
type write struct {
	object client.Object
	at     time.Time
}

// written is when an object was written.
type written struct {
	uid types.UID
	at  time.Time
}

// New is a client.NewClientFunc.
func New(config *rest.Config, options client.Options) (client.Client, error) {
	inner, err := client.New(config, options)
	if err != nil {
		return nil, err
	}
	return Wrap(inner), nil
}

// Wrap returns a Client over one that reads from a cache.
func Wrap(inner client.Client) *Client {
	return &Client{Client: inner, written: map[types.UID]write{}}
}

// Get reads an object.
func (c *Client) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	if err := c.Client.Get(ctx, key, obj, opts...); err != nil {
		return err
	}
	var all client.GetOptions
	all.ApplyOptions(opts)
	c.renew(obj, ptr.Deref(all.UnsafeDisableDeepCopy, false))
	return nil
}

// List reads objects.
func (c *Client) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := c.Client.List(ctx, list, opts...); err != nil {
		return err
	}
	var all client.ListOptions
	all.ApplyOptions(opts)
	share := ptr.Deref(all.UnsafeDisableDeepCopy, false)
	// The items are copies of their own, whose maps and slices may be the cache's: renew replaces them and changes none.
	switch l := list.(type) {
	case *karpv1.NodeClaimList:
		if c.any() {
			for i := range l.Items {
				c.renew(&l.Items[i], share)
			}
		}
	case *corev1.NodeList:
		if c.any() {
			for i := range l.Items {
				c.renew(&l.Items[i], share)
			}
		}
	}
	return nil
}

// any reports whether there is a write that the cache may not have.
func (c *Client) any() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.written) > 0
}

// renew replaces an object by what was written of it later: by a copy, or by the same maps and slices for a caller that shares what it reads with
// others and changes none of it.
func (c *Client) renew(obj client.Object, share bool) {
	if later := c.later(obj); later != nil {
		copyInto(later, obj, share)
	}
}

// later returns what was written of an object after its version; nil for nothing.
func (c *Client) later(obj client.Object) client.Object {
	c.mu.Lock()
	defer c.mu.Unlock()
	own, ok := c.written[obj.GetUID()]
	if !ok {
		return nil
	}
	if order, err := resourceversion.CompareResourceVersion(obj.GetResourceVersion(), own.object.GetResourceVersion()); err != nil || order >= 0 || time.Since(own.at) > kept {
		delete(c.written, obj.GetUID())
		return nil
	}
	return own.object
}

// Latest returns a function that returns what a client wrote of a cached object after its version, or the same: always the same for a client
// that is none of this package. Both are shared and must not be changed.
func Latest[T client.Object](c client.Client) func(cached T) T {
	return func(cached T) T {
		if own, ok := c.(*Client); ok {
			if later, ok := own.later(cached).(T); ok {
				return later
			}
		}
		return cached
	}
}

// copyInto copies an object into another of its type.
func copyInto(from, to client.Object, share bool) {
	switch from := from.(type) {
	case *karpv1.NodeClaim:
		if to, ok := to.(*karpv1.NodeClaim); ok && share {
			*to = *from
		} else if ok {
			from.DeepCopyInto(to)
		}
	case *corev1.Node:
		if to, ok := to.(*corev1.Node); ok && share {
			*to = *from
		} else if ok {
			from.DeepCopyInto(to)
		}
	}
}

// remember keeps what the API server returned for a write.
func (c *Client) remember(obj client.Object) {
	switch obj.(type) {
	case *karpv1.NodeClaim, *corev1.Node:
	default:
		return
	}
	own, ok := obj.DeepCopyObject().(client.Object)
	if !ok || own.GetUID() == "" || own.GetResourceVersion() == "" {
		return
	}
	own.SetManagedFields(nil) // The cache has none either.
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if before, ok := c.written[own.GetUID()]; ok {
		// Two writes may be answered out of order.
		if order, err := resourceversion.CompareResourceVersion(own.GetResourceVersion(), before.object.GetResourceVersion()); err == nil && order < 0 {
			return
		}
	}
	c.written[own.GetUID()] = write{own, now}
	c.order = append(c.order, written{own.GetUID(), now})
	old := 0
	for ; now.Sub(c.order[old].at) > kept; old++ {
		if w, ok := c.written[c.order[old].uid]; ok && now.Sub(w.at) > kept {
			delete(c.written, c.order[old].uid)
		}
	}
	c.order = c.order[old:]
}

// Create writes a new object.
func (c *Client) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	var all client.CreateOptions
	if err := c.Client.Create(ctx, obj, opts...); err != nil {
		return err
	}
	if len(all.ApplyOptions(opts).DryRun) == 0 {
		c.remember(obj)
	}
	return nil
}

// Update writes an object.
func (c *Client) Update(ctx context.Context, obj client.Object, opts ...client.UpdateOption) error {
	var all client.UpdateOptions
	if err := c.Client.Update(ctx, obj, opts...); err != nil {
		return err
	}
	if len(all.ApplyOptions(opts).DryRun) == 0 {
		c.remember(obj)
	}
	return nil
}

// Patch writes a part of an object.
func (c *Client) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
	var all client.PatchOptions
	if err := c.Client.Patch(ctx, obj, patch, opts...); err != nil {
		return err
	}
	if len(all.ApplyOptions(opts).DryRun) == 0 {
		c.remember(obj)
	}
	return nil
}

// Status returns what writes the status of objects.
func (c *Client) Status() client.SubResourceWriter {
	return statusWriter{c.Client.Status(), c}
}

type statusWriter struct {
	client.SubResourceWriter
	c *Client
}

// Update writes a status.
func (s statusWriter) Update(ctx context.Context, obj client.Object, opts ...client.SubResourceUpdateOption) error {
	if err := s.SubResourceWriter.Update(ctx, obj, opts...); err != nil {
		return err
	}
	s.c.remember(obj)
	return nil
}

// Patch writes a part of a status.
func (s statusWriter) Patch(ctx context.Context, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
	if err := s.SubResourceWriter.Patch(ctx, obj, patch, opts...); err != nil {
		return err
	}
	s.c.remember(obj)
	return nil
}
