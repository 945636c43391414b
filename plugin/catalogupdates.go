package plugin

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/internal/disruption/conditions"
	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/plugin/buffers"
	"github.com/slipway-k8s/slipway/plugin/catalogview"
	"github.com/slipway-k8s/slipway/plugin/explain"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/link"
	"github.com/slipway-k8s/slipway/plugin/ondemand"
	"github.com/slipway-k8s/slipway/plugin/pending"
	"github.com/slipway-k8s/slipway/plugin/podstatus"
	"github.com/slipway-k8s/slipway/plugin/promise"
	"github.com/slipway-k8s/slipway/plugin/reservations"
	"github.com/slipway-k8s/slipway/plugin/waking"
)

// confirmAfter is how much later than the launcher a promise's deadline is, so that the launcher's answer comes first.
const confirmAfter = time.Second

// unanswered is a request that the launcher has not answered, and may have recorded even so. Updates are read while it is on
// its way: what they report of its claims counts once the answer does.
type unanswered struct {
	// claims that it is to record, or to promise more pods to.
	claims map[string]bool
	// ended are those of them that ended meanwhile.
	ended []link.End
}

// catalogUpdatesConfig is what catalogUpdates need. All fields are required.
type catalogUpdatesConfig struct {
	inbox    *inbox
	view     *catalogview.View
	promises *promise.Table
	reserved *reservations.Table
	buffers  *buffers.Table
	unplaced *pending.Pods
	delays   *delays
	status   *podstatus.Writer
	queue    *queue
	snapshot *snapshot
	begins   *beginning
	metrics  *metrics
	shares   *onDemandShares
	// times learn how long nodes need.
	times *waking.Times
	// promiseTimeout is how long a promise lasts of which the launcher reports nothing.
	promiseTimeout time.Duration
}

// catalogUpdates apply what the launcher reports: to the view of its catalog, to promises, reservations and delays. The planner's
// goroutine alone uses it, awaited excepted.
type catalogUpdates struct {
	catalogUpdatesConfig

	unanswered unanswered
	// doubted are pods of requests that were not answered: the next full state shows which of their promises are recorded.
	doubted []types.UID
	// awaited is how many nodes are awaited in the scheduler's cache, to release the pods that are promised them.
	awaited atomic.Int64
	// siblings are pods of initialized nodes that wait for pods of other nodes.
	siblings siblingWaits
}

// expect records that a request is being sent.
func (c *catalogUpdates) expect(req *api.LaunchRequest) {
	c.unanswered.claims = make(map[string]bool, len(req.GetClaims())+len(req.GetPlacements()))
	for _, claim := range req.GetClaims() {
		c.unanswered.claims[claim.GetName()] = true
	}
	for _, pl := range req.GetPlacements() {
		c.unanswered.claims[pl.GetNodeClaim()] = true
	}
}

// answered records that the request was answered, and applies what became of its claims before.
func (c *catalogUpdates) answered(ctx context.Context) {
	ended, now := c.unanswered.ended, time.Now()
	c.unanswered = unanswered{}
	for _, e := range ended {
		c.onEnded(ctx, e, now)
	}
}

// drain applies what the launcher has reported since the last call.
func (c *catalogUpdates) drain(ctx context.Context, now time.Time) {
	for _, u := range c.inbox.takeUpdates() {
		c.apply(ctx, u, now)
	}
}

// apply applies one change of the catalog.
func (c *catalogUpdates) apply(ctx context.Context, u link.Update, now time.Time) {
	before := c.view.Receive(u.State, now)
	if u.Offers {
		if c.shares.set(ondemand.SharesOf(u.State.NodePools)) {
			var held []*corev1.Pod
			c.unplaced.Each(func(e intake.Entry) { held = append(held, e.Pod) })
			c.queue.activatePods(held)
		}
		c.status.Beside(slices.ContainsFunc(slices.Collect(maps.Values(u.State.NodePools)), func(p catalog.NodePool) bool { return p.HandedOver }))
	}
	if u.Full {
		c.joinMissed(before, u.State, now)
		c.resync(u, now)
		c.endMissed(ctx, before)
	} else {
		for _, name := range u.Changed {
			was, is := before.InFlight[name], u.State.InFlight[name]
			if was.Phase < catalog.PhaseLaunched && is.Phase >= catalog.PhaseLaunched {
				c.view.Launched(is)
			}
			c.onInFlight(was, is, now)
		}
	}
	for _, e := range u.Ended {
		if c.unanswered.claims[e.Node.NodeClaim] {
			c.unanswered.ended = append(c.unanswered.ended, e)
			continue
		}
		c.onEnded(ctx, e, now)
	}
	if u.Offers && c.unplaced.Held() > 0 {
		c.unplaced.Changed(catalogview.MayHelp(before, u.State), now)
		if catalogview.Edited(before, u.State) {
			c.unplaced.Edited(now)
		}
	}
}

// resync starts from a full state: promises are as it reports. Those that were made after the stream was opened may be missing in
// it. They have to show soon, as any.
func (c *catalogUpdates) resync(u link.Update, now time.Time) {
	c.view.Resync(u.Opened)
	c.settle(u.State, now)
	waiting := c.siblings.claims()
	known := func(name string) bool { return c.view.Knows(name) || c.unanswered.claims[name] || waiting[name] }
	c.metrics.release("unknown", c.promises.ReleaseUnknown(known, u.Opened), c.promises)
	for _, name := range u.Changed {
		c.onInFlight(catalog.InFlightNode{}, u.State.InFlight[name], now)
	}
	if c.view.Synced() {
		c.begins.restore()
	}
}

// joinMissed notes the nodes in flight that a full state no longer shows and that are there and Ready: they were initialized between two streams. Their pods are
// released once the scheduler sees the nodes, as always.
func (c *catalogUpdates) joinMissed(before, after catalog.State, now time.Time) {
	for name, n := range before.InFlight {
		if _, shown := after.InFlight[name]; shown || n.NodeName == "" || c.unanswered.claims[name] || len(c.promises.OfClaim(name)) == 0 {
			continue
		}
		node := c.queue.objects.node(n.NodeName)
		if node == nil || !conditions.NodeReady(node) || c.queue.objects.terminates(n.NodeName) {
			continue
		}
		c.delays.Initialized(name, n.NodeName)
		c.times.End(name, now, true)
		c.joined(n, now)
	}
}

// joined records that a node is initialized.
func (c *catalogUpdates) joined(n catalog.InFlightNode, now time.Time) {
	c.view.Initialized(n, now)
	c.countAwaited()
	c.reserved.Joined(n.NodeClaim, n.NodeName)
	c.buffers.Joined(n.NodeClaim, n.NodeName)
}

// endMissed ends the reservations on nodes that a full state no longer shows: the launcher reports the ends of claims on the stream that is open then,
// and those that came between two streams on none. Room that is gone is planned again where it is asked for, not taken to be there.
func (c *catalogUpdates) endMissed(ctx context.Context, before catalog.State) {
	missed := map[string]string{}
	note := func(_ *corev1.Pod, claim, node string) {
		_, sent := c.view.Sent(claim)
		if claim != "" && !sent && !c.view.Knows(claim) && !c.unanswered.claims[claim] {
			missed[claim] = cmp.Or(node, before.InFlight[claim].NodeName)
		}
	}
	c.reserved.Each(note)
	c.buffers.Each(note)
	if len(missed) == 0 {
		return
	}
	c.snapshot.refresh(ctx)
	for claim, node := range missed {
		if node != "" && c.snapshot.initialized(node) {
			c.reserved.Joined(claim, node)
			c.buffers.Joined(claim, node)
			continue
		}
		c.reserved.Failed(claim)
		c.buffers.Failed(claim)
	}
}

// settle ends the doubt about requests that were not answered: promises that the full state does not list were not recorded, and are released.
func (c *catalogUpdates) settle(state catalog.State, now time.Time) {
	if len(c.doubted) == 0 || !c.view.Synced() {
		return
	}
	listed := map[types.UID]string{}
	for name, n := range state.InFlight {
		for _, ref := range n.Pods {
			listed[types.UID(ref.UID)] = name
		}
	}
	var lost []types.UID
	for _, uid := range c.doubted {
		switch p, held := c.promises.Get(uid); {
		case !held:
		case listed[uid] != p.NodeClaim:
			lost = append(lost, uid)
		default:
			c.delays.launchedFor(p.NodeClaim, []catalog.PodRef{p.Pod}, c.queue.objects.pod, now)
			c.status.Report(podstatus.Note{Pod: p.Pod, Message: explain.Place(p.Message)})
		}
	}
	c.doubted = nil
	c.metrics.release("unsent", c.promises.Release(lost...), c.promises)
}

// onInFlight applies an in-flight node that is new or changed. Pods that it newly lists are promised to it: another leader has put
// them there, or this one before it restarted.
func (c *catalogUpdates) onInFlight(before, after catalog.InFlightNode, now time.Time) {
	listed := make(map[string]bool, len(before.Pods))
	for _, ref := range before.Pods {
		listed[ref.UID] = true
	}
	var news []promise.Promise
	for _, ref := range after.Pods {
		if listed[ref.UID] {
			continue
		}
		listed[ref.UID] = true
		if _, held := c.promises.Get(types.UID(ref.UID)); held {
			continue
		}
		if pod := c.queue.objects.pod(ref); pod != nil && pod.Spec.NodeName == "" {
			news = append(news, promise.Promise{
				Pod: ref, NodeClaim: after.NodeClaim, NodeName: after.NodeName, Labels: after.Labels, Since: now,
				Deadline: now.Add(c.promiseTimeout), Message: explain.Joining(after).Text(),
			})
			c.delays.launchedFor(after.NodeClaim, []catalog.PodRef{ref}, c.queue.objects.pod, now)
		}
	}
	c.promises.Hold(news...)
	// After an outage, the launcher gives nodes more time than their deadline, and reports their end itself.
	if late := after.Deadline.Add(confirmAfter); !after.Deadline.IsZero() && late.After(now) {
		c.promises.Confirm(after.NodeClaim, late)
	}
	if after.NodeName != "" && before.NodeName != after.NodeName {
		c.promises.SetNode(after.NodeClaim, after.NodeName)
	}
	c.promises.PreBound(after.NodeClaim, after.Bound)
	c.view.Shown(after)
	c.metrics.promises.Set(float64(c.promises.Len()))
}

// onEnded applies how an in-flight node ended. Pods of one that failed are released at once and come back through the queue, to be
// planned without the offering that failed; those of an initialized one when the scheduler sees it.
func (c *catalogUpdates) onEnded(ctx context.Context, e link.End, now time.Time) {
	logger := klog.FromContext(ctx)
	name := e.Node.NodeClaim
	if e.Unshown {
		node, sent := c.view.Sent(name)
		if !sent && len(c.promises.OfClaim(name)) == 0 {
			return // It is none that this scheduler waits for.
		}
		if sent {
			node.NodeName, e.Node = e.Node.NodeName, node
		}
	}
	failure := ""
	if e.Outcome == api.Outcome_OUTCOME_FAILED {
		failure = e.Reason
	}
	c.view.Ended(e.Node, failure, now)
	c.metrics.probation.Set(float64(c.view.OnProbation(now)))
	c.delays.ended(e)
	c.times.End(name, now, e.Outcome == api.Outcome_OUTCOME_INITIALIZED)
	switch e.Outcome {
	case api.Outcome_OUTCOME_INITIALIZED:
		c.promises.PreBound(name, e.Bound())
		c.joined(e.Node, now)
		return
	case api.Outcome_OUTCOME_FAILED:
		if !ec2error.OfferingsFailed(failure) {
			c.view.Failed(name, e.Node.NodePool, e.Reason, failureText(e.Reason, e.Message), now)
		}
	case api.Outcome_OUTCOME_DELETED, api.Outcome_OUTCOME_UNSPECIFIED:
	}
	c.reserved.Failed(name)
	c.buffers.Failed(name)
	logger.V(2).Info("In-flight node ended", "nodeClaim", name, "outcome", e.Outcome.String(), "reason", e.Reason)
	for _, held := range c.promises.OfClaim(name) {
		c.status.Report(podstatus.Note{Pod: held.Pod, Message: explain.Failed(name, e.Reason, e.Message)})
	}
	c.metrics.release("failed", c.promises.ReleaseClaim(name), c.promises)
}

// failureText returns why a launch failed, for the pods of the NodePool that has to wait.
func failureText(reason, message string) string {
	if message == "" {
		return reason
	}
	return reason + " (" + ec2error.Clip(message) + ")"
}

// countAwaited counts the nodes that are awaited in the scheduler's cache.
func (c *catalogUpdates) countAwaited() { c.awaited.Store(int64(c.view.Settling() + c.view.Ready())) }
