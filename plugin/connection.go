package plugin

import (
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/plugin/explain"
)

// connection is whether the launcher's catalog is being received. It is safe for concurrent use.
type connection struct {
	metrics *metrics
	// changed is called after each change.
	changed func()

	mu    sync.Mutex
	up    bool
	since time.Time
}

// set records that the connection has come up, or was lost.
func (c *connection) set(up bool) {
	value := 0.0
	if up {
		value = 1
	}
	c.mu.Lock()
	c.up, c.since = up, time.Now()
	c.metrics.connected.Set(value)
	c.mu.Unlock()
	klog.Background().V(1).Info("Connection with the launcher changed", "connected", up)
	c.changed()
}

// lost reports whether there is no connection, and since when.
func (c *connection) lost() (since time.Time, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.since, !c.up
}

// planningMessage returns PostFilter's message, before the planner has reported on the pod. socket is the launcher's.
func (c *connection) planningMessage(socket string) string {
	if since, ok := c.lost(); ok {
		return explain.Unreachable(socket, since, "")
	}
	return "slipway plans a node for it"
}
