package plugin

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/slipway-k8s/slipway/launcher/catalog"
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
	k.reserved.Publish(inFlight, k.buffers.Standing(inFlight))
	for _, r := range k.reserve {
		if pods := r.freed(k.reserved.Board().Freed()); len(pods) > 0 {
			k.queue.activatePods(pods)
		}
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

// keptOff is a pod that was kept off room for daemon pods or promised pods, until that is free.
type keptOff struct {
	pod    *corev1.Pod
	lapses time.Time
}

// waitingPod is a pod that was kept off room on the strength of a board: freed is the board's.
type waitingPod struct {
	pod   *corev1.Pod
	freed int
}

// reject notes that the pod was kept off a node until the moment. Of several nodes the first to be free counts: they are filtered in no order, and a pod that
// is tried once too often costs little. The caller holds the lock.
func (n *nodeReserve) reject(pod *corev1.Pod, lapses time.Time) {
	if old, ok := n.rejected[pod.UID]; ok && old.lapses.Before(lapses) {
		lapses = old.lapses
	}
	n.rejected[pod.UID] = keptOff{pod: pod, lapses: lapses}
}

// wait notes that the pod was kept off reserved room by a board. Of several the first counts: what it reserved may be free by now. The caller holds the lock.
func (n *nodeReserve) wait(pod *corev1.Pod, freed int) {
	if old, ok := n.waiting[pod.UID]; ok {
		freed = min(freed, old.freed)
	}
	n.waiting[pod.UID] = waitingPod{pod, freed}
}

// waits reports whether the pod was kept off reserved room.
func (n *nodeReserve) waits(uid types.UID) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, waiting := n.waiting[uid]
	_, rejected := n.rejected[uid]
	return waiting || rejected
}

// freed returns the pods that were kept off reserved room before some of it became free for the last time: a filter may have read the board before that, and note
// the pod after it. They are to be activated.
func (n *nodeReserve) freed(times int) []*corev1.Pod {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []*corev1.Pod
	for uid, w := range n.waiting {
		if w.freed != times {
			out = append(out, w.pod)
			delete(n.waiting, uid)
		}
	}
	return out
}

// lapsed returns the rejected pods whose reservation is over. They are to be activated.
func (n *nodeReserve) lapsed(now time.Time) []*corev1.Pod {
	n.mu.Lock()
	defer n.mu.Unlock()
	var out []*corev1.Pod
	for uid, k := range n.rejected {
		if !now.Before(k.lapses) {
			out = append(out, k.pod)
			delete(n.rejected, uid)
		}
	}
	for uid, w := range n.waiting {
		// Standing room may stay for long, and the pod have a place for long.
		if current := n.objects.pod(catalog.PodRefOf(w.pod)); current == nil || current.Spec.NodeName != "" {
			delete(n.waiting, uid)
		}
	}
	for uid, d := range n.needs {
		if now.After(d.until.Add(needsKeptFor)) {
			delete(n.needs, uid)
		}
	}
	return out
}
