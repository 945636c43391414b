package plugin

import (
	"context"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/plugin/explain"
	"github.com/slipway-k8s/slipway/plugin/link"
)

// connection is whether the launcher's catalog is being received. It is safe for concurrent use.
type connection struct {
	metrics *metrics
	// changed is called after each change.
	changed func()

	mu    sync.Mutex
	now   link.Connection
	since time.Time
	// next is closed at the next change; nil while it is not waited for.
	next chan struct{}
}

// set records a change of the connection.
func (c *connection) set(now link.Connection) {
	c.mu.Lock()
	c.now, c.since = now, time.Now()
	if c.next != nil {
		close(c.next)
		c.next = nil
	}
	c.metrics.connection(now)
	c.mu.Unlock()
	logger := klog.Background().WithValues("launcher", now.Launcher, "scheduler", api.OwnVersion().Text())
	switch now.Skew {
	case api.SkewMajor:
		logger.Error(nil, "The launcher speaks another version of the contract: no node is launched until both are of one release")
	case api.SkewMinor:
		logger.Info("The launcher speaks another minor version of the contract: what only one side knows is not used")
	case api.SkewNone:
	}
	logger.V(1).Info("Connection with the launcher changed", "connected", now.Up)
	c.changed()
}

// outage is why nothing can be launched, and since when.
type outage struct {
	link.Connection
	since time.Time
}

// lost returns the outage where there is no connection.
func (c *connection) lost() (outage, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return outage{c.now, c.since}, !c.now.Up
}

// await waits until there is a connection. It returns false if the context ends before.
func (c *connection) await(ctx context.Context) bool {
	for {
		c.mu.Lock()
		up := c.now.Up
		if c.next == nil {
			c.next = make(chan struct{})
		}
		next := c.next
		c.mu.Unlock()
		if up {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-next:
		}
	}
}

// message returns what is said of a pod meanwhile. socket is the launcher's, verdict the scheduler's on the nodes that exist.
func (o outage) message(socket, verdict string) explain.Message {
	if o.Skew == api.SkewMajor {
		return explain.Incompatible(o.Launcher, api.OwnVersion().Text(), verdict)
	}
	return explain.Unreachable(socket, o.since, verdict)
}

// planningMessage returns PostFilter's message, before the planner has reported on the pod. socket is the launcher's.
func (c *connection) planningMessage(socket string) string {
	if o, ok := c.lost(); ok {
		return o.message(socket, "").Text()
	}
	return "slipway plans a node for it"
}
