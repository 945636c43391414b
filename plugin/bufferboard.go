package plugin

import (
	"sync/atomic"

	"github.com/slipway-k8s/slipway/plugin/buffers"
)

// bufferBoard lists the nodes that have room for pods of buffers, for those outside the planner's goroutine. The zero value lists none. It is safe for
// concurrent use.
type bufferBoard struct {
	nodes atomic.Pointer[map[string]bool]
	// begun and over count the answers about buffers that were begun, and those that are published.
	begun, over atomic.Int64
}

// begin notes that an answer is sought. The function that it returns notes that what was found is published.
func (b *bufferBoard) begin() (published func()) {
	b.begun.Add(1)
	return func() { b.over.Add(1) }
}

// shows returns a function that reports whether all answers are published that were begun before.
func (b *bufferBoard) shows() func() bool {
	begun := b.begun.Load()
	return func() bool { return b.over.Load() >= begun }
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
