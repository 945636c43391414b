package plugin

import (
	"time"

	"github.com/slipway-k8s/slipway/plugin/buffers"
	"github.com/slipway-k8s/slipway/plugin/catalogview"
	"github.com/slipway-k8s/slipway/plugin/reservations"
)

// keptOffPods activates the pods that NodeReserve kept off reserved room which is free again. The planner's goroutine alone uses
// it.
type keptOffPods struct {
	reserve  []*nodeReserve
	reserved *reservations.Table
	buffers  *buffers.Table
	board    *bufferBoard
	view     *catalogview.View
	queue    *queue
}

// publish makes the reservations and the room of buffers visible outside the planner's goroutine, and activates pods that wait for room which is not reserved any more.
func (k *keptOffPods) publish() {
	k.board.publish(k.buffers)
	inFlight := k.view.InFlight()
	if !k.reserved.Publish(inFlight, k.buffers.Standing(inFlight)) {
		return
	}
	for _, r := range k.reserve {
		k.queue.activatePods(r.freed())
	}
}

// lapsed activates the pods whose reservation is over.
func (k *keptOffPods) lapsed(now time.Time) {
	for _, r := range k.reserve {
		if pods := r.lapsed(now); len(pods) > 0 {
			k.queue.activatePods(pods)
		}
	}
}
