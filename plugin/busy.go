package plugin

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/plugin/promise"
	"github.com/slipway-k8s/slipway/plugin/reservations"
)

const (
	// busyWithin is how long an answer about a node may wait for the scheduler's cache.
	busyWithin = 5 * time.Second
	busyPoll   = 10 * time.Millisecond
)

// busyView answers whether the scheduler has anything on a node, or could still put something there. It is safe for concurrent use.
type busyView struct {
	queue    *queue
	promises *promise.Table
	reserved *reservations.Table
	buffers  *bufferBoard
	metrics  *metrics

	mu       sync.Mutex
	snapshot *snapshot
}

// safe answers busy if our code fails: no answer and a wrong one must both keep the node.
func (b *busyView) safe(ctx context.Context, q *api.NodeBusy) (answer *api.NodeBusyAnswer) {
	defer func() {
		if cause := recover(); cause != nil {
			b.metrics.panicked(klog.FromContext(ctx), pointNodeBusy, cause)
			answer = &api.NodeBusyAnswer{Busy: true, Reason: fmt.Sprintf("panic: %v", cause)}
		}
	}()
	reason, busy := b.ask(ctx, q)
	return &api.NodeBusyAnswer{Busy: busy, Reason: reason}
}

// ask waits until no scheduling cycle can choose the node any more, and then looks at what has chosen it:
//
//  1. the scheduler's cache shows the disruption taint: cycles that start from now on keep off the node;
//  2. the pods whose cycles may have started before are done with, or assumed on a node, and so are pods of buffers;
//  3. nothing is assumed, nominated, promised or reserved there, and no buffer that stays has its room there.
func (b *busyView) ask(ctx context.Context, q *api.NodeBusy) (reason string, busy bool) {
	ctx, cancel := context.WithTimeout(ctx, busyWithin)
	defer cancel()
	if !waitUntil(ctx, func() bool { return b.tainted(ctx, q.GetNodeName()) }) {
		return "the scheduler's cache does not show the taint " + disruptedTaint, true
	}
	before := b.queue.cycles()
	if !waitUntil(ctx, func() bool { return b.queue.cyclesOver(before) }) {
		return "scheduling cycles that may choose the node have not ended", true
	}
	if !waitUntil(ctx, b.buffers.shows()) {
		return "room for a capacity buffer is planned, which may be on the node", true
	}
	claim := b.claimOf(q.GetNodeName())
	if reason, busy := b.chosen(ctx, claim, q.GetNodeName()); busy {
		return reason, true
	}
	if !q.GetBuffersMove() && b.buffers.on(claim, q.GetNodeName()) {
		return "a capacity buffer has its room there", true
	}
	return "", false
}

// waitUntil looks every busyPoll whether it is done. It reports false if the context ends before.
func waitUntil(ctx context.Context, done func() bool) bool {
	for !done() {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(busyPoll):
		}
	}
	return true
}

// tainted reports whether the cache, as the next scheduling cycle will see it, shows the taint. A node that is gone from it is as
// good.
func (b *busyView) tainted(ctx context.Context, node string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.snapshot.update(ctx); err != nil {
		return false
	}
	info, err := b.snapshot.Get(node)
	return err != nil || disrupted(info.Node())
}

// claimOf returns the NodeClaim of the node, by the snapshot; empty where it has none.
func (b *busyView) claimOf(node string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	info, err := b.snapshot.Get(node)
	if err != nil {
		return ""
	}
	return nodeClaimOf(info.Node())
}

// chosen returns what is assumed, nominated, promised or reserved on the node, which the planner may know by its NodeClaim alone.
func (b *busyView) chosen(ctx context.Context, claim, node string) (reason string, busy bool) {
	if nominated := b.queue.nominated(node); len(nominated) > 0 {
		return fmt.Sprintf("pod %s is nominated to it", klog.KObj(nominated[0].GetPod())), true
	}
	if b.promises.OnNode(node) || len(b.promises.OfClaim(claim)) > 0 {
		return "pods are promised to it", true
	}
	if b.reserved.Board().On(claim, node) {
		return "room on it is reserved for pods of another node that terminates", true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.snapshot.update(ctx); err != nil {
		return err.Error(), true
	}
	info, err := b.snapshot.Get(node)
	if err != nil {
		return "", false
	}
	for _, p := range info.GetPods() {
		if b.queue.assumed(p.GetPod()) {
			return fmt.Sprintf("pod %s is assumed on it", klog.KObj(p.GetPod())), true
		}
	}
	return "", false
}
