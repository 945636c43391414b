package plugin

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/explain"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/pending"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/podstatus"
	"github.com/slipway-k8s/slipway/plugin/promise"
)

// tryAfterEnd is how long the scheduler has to try a pod on the room of one that ended, before a node is planned for it.
const tryAfterEnd = 2 * time.Second

// looksAgain is after what time a pod is tried again while it is looked up how another of its owner ended.
const looksAgain = 100 * time.Millisecond

// candidates choose the pods of a batch that need a node. The planner's goroutine alone uses them.
type candidates struct {
	queue    *queue
	snapshot *snapshot
	promises *promise.Table
	unplaced *pending.Pods
	delays   *delays
	gangs    *gangs
	sleep    *sleepers
	status   *podstatus.Writer
	metrics  *metrics
	// withClaims means that pods with ResourceClaims are planned for.
	withClaims bool
}

// choose drops the pods that need no node any more, reports on those that no node can help, and returns the others as they are now.
func (c *candidates) choose(ctx context.Context, entries []intake.Entry, of purpose) []intake.Entry {
	var out []intake.Entry
	var retry []*corev1.Pod
	var ending *pending.Terminating // Displaced pods run as long as they have no other room.
	now := time.Now()
	if of.pending() {
		ending = pending.NewTerminating(now, c.queue.objects.owners.PodsOf, c.queue.objects.node)
	}
	c.snapshot.refresh(ctx)
	for _, e := range entries {
		pod := c.needing(e, of)
		if pod == nil {
			c.holdUnsettled(e, of, now)
			continue
		}
		if e.NoNodes && c.snapshot.NumNodesInPlacement() > 0 {
			retry = append(retry, pod)
			continue
		}
		if why := pinned(pod, c.withClaims && of.pending()); why != "" {
			if of.pending() {
				c.holdPinned(e, pod, why)
			}
			continue
		}
		if of.pending() && c.sleeps(e, pod, now) || of.pending() && c.awaitsRoom(ctx, ending, e, pod, now) || c.delayed(ctx, e, pod) {
			continue
		}
		if !of.pending() {
			// It runs, and is planned as if it did not.
			free := *pod
			free.Spec.NodeName = ""
			pod = &free
		}
		out = append(out, asItIs(e, pod))
	}
	c.queue.activatePods(retry)
	return out
}

// asItIs returns the entry with the pod as it is now. Its class is that of before, unless its needs have changed: the conditions of a pod are
// written after each plan that finds nothing for it.
func asItIs(e intake.Entry, pod *corev1.Pod) intake.Entry {
	if e.Pod != pod {
		e.Pod, e.Class = pod, plan.ClassKey(pod)
	}
	return e
}

// needing returns the pod of the entry as it is now, nil if it needs no node any more.
func (c *candidates) needing(e intake.Entry, of purpose) *corev1.Pod {
	pod := c.queue.objects.current(e.Pod)
	if pod == nil || pod.DeletionTimestamp != nil || of.pending() && c.provided(e, pod) {
		return nil
	}
	return c.queue.profiles.ours(pod)
}

// holdUnsettled holds a pod that seems provided for, and may be back with nothing else that tries it again:
//
//   - a pod of a gang that is assumed on a node may be on its way back to the queue;
//   - the nomination for which a pod's victims terminate may be over already, which the informer shows later;
//   - a nomination may come from others than the scheduler, or come to nothing. The pod has nominationRest to get there. Adopted pods are looked through anyway.
func (c *candidates) holdUnsettled(e intake.Entry, of purpose, now time.Time) {
	pod := c.queue.objects.current(e.Pod)
	if !of.pending() || pod == nil || pod.DeletionTimestamp != nil || pod.Spec.NodeName != "" {
		return
	}
	_, promised := c.promises.Get(pod.UID)
	node, leave := pod.Status.NominatedNodeName, c.snapshot.victimsLeave(pod)
	switch {
	case c.queue.assumed(pod):
		if c.queue.profiles.gathering(pod) == "" {
			return
		}
	case promised, e.Adopted && !leave:
		return
	case e.Renominated != node, leave:
		e.Renominated, e.RenominatedAt = node, now
	case now.Sub(e.RenominatedAt) >= nominationRest:
		e.Nominated = node
	}
	c.unplaced.HoldUntil(e, now.Add(tryAfterEnd))
}

// needless reports whether a pod that was planned needs no room any more: it has gone, or has a node, or preempts since. It holds one that may be back.
func (c *candidates) needless(e intake.Entry, of purpose, now time.Time) bool {
	pod := c.queue.objects.current(e.Pod)
	if pod != nil && pod.DeletionTimestamp == nil && pod.Spec.NodeName == "" && !c.queue.assumed(pod) && !c.renominated(e, pod) {
		return false
	}
	c.holdUnsettled(e, of, now)
	return true
}

// holdPinned holds a pod that no new node can take.
func (c *candidates) holdPinned(e intake.Entry, pod *corev1.Pod, why string) {
	c.metrics.pods.WithLabelValues(outcomeUnplaced).Inc()
	c.unplaced.Hold(e)
	c.status.Report(podstatus.Note{
		Pod: catalog.PodRefOf(pod), Message: explain.NotLaunchable(why, e.Verdict), EventReason: "FailedScheduling", Warning: true,
	})
}

// delayed holds a pod that has to wait because the last launches for its owner or its gang came to nothing, or until it is known whether they did. It
// reports whether the pod waits.
func (c *candidates) delayed(ctx context.Context, e intake.Entry, pod *corev1.Pod) bool {
	if c.delays.looksUp(pod) {
		c.unplaced.HoldUntil(e, time.Now().Add(looksAgain))
		return true
	}
	until, note, waits := c.gangs.delayed(ctx, e, pod)
	if !waits {
		until, note, waits = c.delays.check(ctx, e, pod)
	}
	if waits {
		c.unplaced.HoldUntil(e, until)
		c.status.Report(note)
	}
	return waits
}

// sleeps holds a pod whose namespace sleeps, and reports whether it does.
func (c *candidates) sleeps(e intake.Entry, pod *corev1.Pod, now time.Time) bool {
	ends, held := c.sleep.holds(pod, now)
	if held {
		c.unplaced.HoldUntil(e, ends)
	}
	return held
}

// provided reports whether the pod has a node by now, a promise, or makes room for itself.
func (c *candidates) provided(e intake.Entry, pod *corev1.Pod) bool {
	_, promised := c.promises.Get(pod.UID)
	return promised || pod.Spec.NodeName != "" || c.queue.assumed(pod) || c.preempts(e, pod)
}

// preempts reports whether the pod makes room for itself: it was nominated a node since, or its victims are terminating.
func (c *candidates) preempts(e intake.Entry, pod *corev1.Pod) bool {
	if pod.Status.NominatedNodeName == "" {
		return false
	}
	return c.renominated(e, pod) || c.snapshot.victimsLeave(pod)
}

// renominated reports whether the pod is nominated another node than when it was collected. One that waits for its gang is nominated the node that it waits for.
func (c *candidates) renominated(e intake.Entry, pod *corev1.Pod) bool {
	node := pod.Status.NominatedNodeName
	return node != "" && node != e.Nominated && c.queue.profiles.gathering(pod) == ""
}

// awaitsRoom holds a pod that gets the room of one that ends, and reports whether it does. Once that one has ended the scheduler
// has a moment to try the pod there.
func (c *candidates) awaitsRoom(ctx context.Context, from *pending.Terminating, e intake.Entry, pod *corev1.Pod, now time.Time) bool {
	if e.Gang.Name != "" {
		return false
	}
	ending := from.RoomFor(klog.FromContext(ctx), pod, e.At)
	switch {
	case ending != nil:
		e.EndingSeen = now
		c.status.Report(podstatus.Note{
			Pod: catalog.PodRefOf(pod), Message: explain.AwaitsRoom(klog.KObj(ending).String(), ending.Spec.NodeName),
		})
	case e.EndingSeen.IsZero() || now.Sub(e.EndingSeen) >= tryAfterEnd:
		return false
	}
	c.unplaced.HoldUntil(e, now.Add(time.Second))
	return true
}
