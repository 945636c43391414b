package plugin

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
)

const (
	// openAfter is how long the scheduler's cache must have shown that a node takes pods before those that are promised it are
	// tried: the launcher has bound most of them a moment before, which the scheduler may see later.
	openAfter = 200 * time.Millisecond
	// openEvery is how often nodes are looked at that are Ready and do not take pods yet.
	openEvery = 100 * time.Millisecond
	// settleEvery is how often an initialized node is looked for in the scheduler's cache.
	settleEvery = 20 * time.Millisecond
	// boundWithin is how long the pods of an initialized node that the launcher has bound are waited for in the scheduler's cache, which a busy API
	// server has shown them twenty seconds late.
	boundWithin = time.Minute
	// shortestToleration of a NoExecute taint is that below which a pod waits for the taint to go: it might be evicted.
	shortestToleration = time.Minute
)

// nextLook returns when to look at the scheduler's cache again for nodes that it does not show as they are. Zero for not at all.
func (c *catalogUpdates) nextLook(now time.Time) time.Time {
	switch {
	case c.view.Settling() > 0:
		return now.Add(settleEvery)
	case c.view.Ready() > 0:
		return now.Add(openEvery)
	}
	return time.Time{}
}

// releaseInitialized releases the pods of initialized nodes once the scheduler's cache shows the node as it is: before that they
// would fail on a taint that it has no more and be launched for a second time. Pods that the launcher has bound stay promised: where the cache shows their bindings
// late, they would be tried, and others would be bound to their room.
func (c *catalogUpdates) releaseInitialized(ctx context.Context, now time.Time) {
	if c.view.Settling() == 0 {
		return
	}
	c.snapshot.refresh(ctx)
	for _, n := range c.view.Settled(now, c.snapshot.initialized) {
		c.leaveInitialized(ctx, n.NodeClaim, n.Name, now)
	}
	c.countAwaited()
}

// releaseReady lets the scheduler try the pods that are promised a Ready node, as soon as its cache shows that the node takes them.
// The node may become Initialized seconds later: kube-controller-manager looks at its NoExecute taints every five, which pods
// tolerate.
func (c *catalogUpdates) releaseReady(ctx context.Context, now time.Time) {
	if c.view.Ready() == 0 {
		return
	}
	c.snapshot.refresh(ctx)
	for _, n := range c.view.TakingPods(now, openAfter, c.snapshot.started) {
		info, err := c.snapshot.Get(n.Name)
		if err != nil {
			continue
		}
		var taken []types.UID
		left := 0
		for _, held := range c.promises.OfClaim(n.NodeClaim) {
			pod := c.queue.objects.pod(held.Pod)
			switch {
			case held.Open || held.PreBound || pod == nil || c.queue.profiles.adopts(pod.Spec.SchedulerName):
			case takes(info.Node(), pod, c.snapshot.devices):
				taken = append(taken, pod.UID)
			default:
				left++
			}
		}
		c.promises.Open(taken...)
		if left == 0 {
			c.view.Tried(n.NodeClaim)
		}
	}
	c.countAwaited()
}

// takes reports whether nothing on the node itself keeps the pod off: it tolerates the taints for long enough, and whatever it asks
// for is there, devices too. Those that a DeviceClass stands for never show there: NodeResourcesFit leaves them to DynamicResources where none is allocatable.
func takes(node *corev1.Node, pod *corev1.Pod, devices fwk.SharedDRAManager) bool {
	for _, taint := range node.Spec.Taints {
		tolerated := taint.Effect == corev1.TaintEffectPreferNoSchedule || slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
			return t.ToleratesTaint(klog.Background(), &taint, false) &&
				(taint.Effect != corev1.TaintEffectNoExecute || t.TolerationSeconds == nil || time.Duration(*t.TolerationSeconds)*time.Second >= shortestToleration)
		})
		if !tolerated {
			return false
		}
	}
	for name, wanted := range resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{}) {
		if have := node.Status.Allocatable[name]; have.Cmp(wanted) < 0 && (!have.IsZero() || !classed(name, devices)) {
			return false
		}
	}
	return true
}

// classed reports whether a DeviceClass stands for the resource (KEP-5004).
func classed(name corev1.ResourceName, devices fwk.SharedDRAManager) bool {
	return devices != nil && devices.DeviceClassResolver().GetDeviceClass(name) != nil
}
