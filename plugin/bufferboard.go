package plugin

import (
	"sync/atomic"

	"github.com/slipway-k8s/slipway/plugin/buffers"
)

// bufferBoard lists the nodes that have room for pods of buffers, for those outside the planner's goroutine. The zero value lists none. It is safe for
// concurrent use.
type bufferBoard struct {
	nodes atomic.Pointer[map[string]bool]
}

// publish replaces the list with the nodes of the table.
func (b *bufferBoard) publish(t *buffers.Table) {
	nodes := t.Nodes()
	b.nodes.Store(&nodes)
}

// on reports whether the node has room for pods of buffers.
func (b *bufferBoard) on(node string) bool {
	nodes := b.nodes.Load()
	return nodes != nil && (*nodes)[node]
}
