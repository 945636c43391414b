package plugin

import (
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/plugin/buffers"
)

// bufferBoard lists the nodes that have room for pods of buffers, for those outside the planner's goroutine. Nodes in flight it lists by NodeClaim: they may
// join before the planner knows their names. The zero value lists none. It is safe for concurrent use.
type bufferBoard struct {
	rooms atomic.Pointer[bufferRooms]
	// begun and over count the answers about buffers that were begun, and those that are published.
	begun, over atomic.Int64
}

// bufferRooms are nodes that have room for pods of buffers, by name, and those in flight, by NodeClaim.
type bufferRooms struct{ nodes, claims map[string]bool }

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
	rooms := &bufferRooms{nodes: map[string]bool{}, claims: map[string]bool{}}
	t.Each(func(_ *corev1.Pod, claim, node string) {
		rooms.claims[claim] = claim != ""
		rooms.nodes[node] = node != ""
	})
	b.rooms.Store(rooms)
}

// on reports whether the node has room for pods of buffers, by its NodeClaim or its name.
func (b *bufferBoard) on(claim, node string) bool {
	rooms := b.rooms.Load()
	return rooms != nil && (rooms.claims[claim] || rooms.nodes[node])
}
