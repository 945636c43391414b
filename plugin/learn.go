package plugin

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/catalogview"
	"github.com/slipway-k8s/slipway/plugin/explain"
	"github.com/slipway-k8s/slipway/plugin/link"
	"github.com/slipway-k8s/slipway/plugin/podstatus"
	"github.com/slipway-k8s/slipway/plugin/promise"
)

// unanswered is a request that the launcher has not answered, and may have recorded all the same. Updates are read while it is on
// its way: what they tell of its claims counts once the answer does.
type unanswered struct {
	// claims that it is to record, or to promise more pods to.
	claims map[string]bool
	// ended are those of them that ended meanwhile.
	ended []link.End
}

// asks notes the request's claims.
func (u *unanswered) asks(req *api.LaunchRequest) {
	u.claims = make(map[string]bool, len(req.GetClaims())+len(req.GetPlacements()))
	for _, c := range req.GetClaims() {
		u.claims[c.GetName()] = true
	}
	for _, pl := range req.GetPlacements() {
		u.claims[pl.GetNodeClaim()] = true
	}
}

// answered learns what became of the request's claims before its answer came.
func (p *planner) answered(ctx context.Context) {
	ended := p.unanswered.ended
	p.unanswered = unanswered{}
	for _, e := range ended {
		p.ended(ctx, e, time.Now())
	}
}

// hear learns what the launcher has told since.
func (p *planner) hear(ctx context.Context, now time.Time) {
	for _, u := range p.inbox.takeUpdates() {
		p.learn(ctx, u, now)
	}
}

// learn takes one change of the catalog.
func (p *planner) learn(ctx context.Context, u link.Update, now time.Time) {
	before := p.view.Receive(u.State)
	if u.Full {
		p.relearn(ctx, u, now)
	} else {
		for _, name := range u.Changed {
			was, is := before.InFlight[name], u.State.InFlight[name]
			if was.Phase < catalog.PhaseLaunched && is.Phase >= catalog.PhaseLaunched {
				p.view.Launched(is)
			}
			p.shown(ctx, was, is, now)
		}
	}
	for _, e := range u.Ended {
		if p.unanswered.claims[e.Node.NodeClaim] {
			p.unanswered.ended = append(p.unanswered.ended, e)
			continue
		}
		p.ended(ctx, e, now)
	}
	if u.Offers && len(p.unplaced) > 0 {
		p.replan.changed(catalogview.MayHelp(before, u.State), now)
	}
}

// replanAfterBackoff plans the unplaced pods again when the first NodePool or offering may be tried again.
func (p *planner) replanAfterBackoff(now time.Time) {
	if until := p.view.BackoffEnds(now); !until.IsZero() {
		p.replan.by(until)
	}
}

// relearn starts from a full state: promises are as it says. Those that were made after the stream was opened may have
// missed it; they have to show soon, as any.
func (p *planner) relearn(ctx context.Context, u link.Update, now time.Time) {
	p.view.Resync(u.Opened)
	known := func(name string) bool { return p.view.Knows(name) || p.unanswered.claims[name] }
	p.count("unknown", len(p.promises.ReleaseUnknown(known, u.Opened)))
	for _, name := range u.Changed {
		p.shown(ctx, catalog.InFlightNode{}, u.State.InFlight[name], now)
	}
	if p.view.Synced() {
		p.begins.know()
	}
}

// shown is told of an in-flight node that is new or changed. Pods that it newly lists are promised to it: another
// leader has put them there, or this one before it restarted.
func (p *planner) shown(ctx context.Context, before, after catalog.InFlightNode, now time.Time) {
	listed := make(map[string]bool, len(before.Pods))
	for _, ref := range before.Pods {
		listed[ref.UID] = true
	}
	for _, ref := range after.Pods {
		if listed[ref.UID] {
			continue
		}
		if _, held := p.promises.Get(types.UID(ref.UID)); held {
			continue
		}
		if pod := p.pod(ref); pod != nil && pod.Spec.NodeName == "" {
			p.promises.Hold(promise.Promise{
				Pod: ref, NodeClaim: after.NodeClaim, Since: now,
				Deadline: now.Add(p.args.PromiseTimeout.Duration), Message: explain.Joining(after),
			})
			p.delays.launchedFor(after.NodeClaim, []catalog.PodRef{ref}, p.pod, now)
		}
	}
	if !after.Deadline.IsZero() {
		// A little after the launcher's own deadline, so that its answer comes first.
		p.promises.Confirm(after.NodeClaim, after.Deadline.Add(housekeeping))
	}
	if after.NodeName != "" && before.NodeName != after.NodeName {
		p.promises.SetNode(after.NodeClaim, after.NodeName)
	}
	if after.Phase >= catalog.PhaseRegistered && (before.Phase < catalog.PhaseRegistered || len(after.Pods) != len(before.Pods)) {
		p.keepRoom(ctx, after)
	}
	p.view.Shown(after)
	p.metrics.promises.Set(float64(p.promises.Len()))
}

// keepRoom keeps the room of the promised pods from before others may use the node: in the scheduler's memory, against pods of
// lower or equal priority, until the scheduler has seen that they are bound. The launcher binds most of them before it lifts the
// node's taint, but the scheduler may hear of the taint first.
func (p *planner) keepRoom(ctx context.Context, n catalog.InFlightNode) {
	for _, held := range p.promises.OfClaim(n.NodeClaim) {
		p.nominate(ctx, held.Pod, n.NodeName)
	}
}

func (p *planner) nominate(ctx context.Context, ref catalog.PodRef, nodeName string) {
	pod := p.pod(ref)
	if pod == nil || pod.Spec.NodeName != "" || p.adopts(pod.Spec.SchedulerName) {
		return // The scheduler forgets a nomination when it has placed the pod: it must be its own.
	}
	// As in the scheduler's queue, a pod whose terms cannot be parsed counts without them.
	info, _ := framework.NewPodInfo(pod)
	p.sched.SchedulingQueue.AddNominatedPod(klog.FromContext(ctx), info,
		&fwk.NominatingInfo{NominatedNodeName: nodeName, NominatingMode: fwk.ModeOverride})
}

// ended is told how an in-flight node ended. Pods of one that failed are let go at once and come back through the
// queue, to be planned without the offering that failed; those of an initialized one when the scheduler sees it.
func (p *planner) ended(ctx context.Context, e link.End, now time.Time) {
	logger := klog.FromContext(ctx)
	name := e.Node.NodeClaim
	lacked := e.Outcome == api.Outcome_OUTCOME_FAILED && catalog.OfferingsFailed(e.Reason)
	p.view.Ended(e.Node, lacked, now)
	p.metrics.probation.Set(float64(p.view.OnProbation(now)))
	p.delays.ended(e)
	switch e.Outcome {
	case api.Outcome_OUTCOME_INITIALIZED:
		p.view.Initialized(e.Node, now)
		p.waiting()
		p.reserved.Joined(name, e.Node.NodeName)
		return
	case api.Outcome_OUTCOME_FAILED:
		if !lacked {
			p.view.Failed(e.Node.NodePool, e.Reason, now)
		}
	case api.Outcome_OUTCOME_DELETED, api.Outcome_OUTCOME_UNSPECIFIED:
	}
	p.reserved.Failed(name)
	logger.V(2).Info("In-flight node ended", "nodeClaim", name, "outcome", e.Outcome.String(), "reason", e.Reason)
	for _, held := range p.promises.OfClaim(name) {
		p.status.Report(podstatus.Note{Pod: held.Pod, Message: explain.Failed(name, e.Reason, e.Message)})
	}
	p.count("failed", len(p.promises.ReleaseClaim(name)))
}

// settle lets go the pods of initialized nodes once the scheduler's cache shows the node as it is: before that they
// would fail on its startup taint and be launched for a second time.
func (p *planner) settle(ctx context.Context, now time.Time) {
	if p.view.Settling() == 0 {
		return
	}
	p.refresh(ctx)
	for _, n := range p.view.Settled(now, p.sees) {
		for _, held := range p.promises.OfClaim(n.NodeClaim) {
			if held.Pod.SchedulerOnly != "" {
				p.nominate(ctx, held.Pod, n.Name)
			}
		}
		p.count("initialized", len(p.promises.ReleaseClaim(n.NodeClaim)))
	}
	p.waiting()
}

// waiting tells how many nodes are awaited in the scheduler's cache.
func (p *planner) waiting() { p.awaited.Store(int64(p.view.Settling() + p.view.Ready())) }

// refresh has the snapshot show what the scheduler's cache does.
func (p *planner) refresh(ctx context.Context) {
	logger := klog.FromContext(ctx)
	if err := p.sched.Cache.UpdateSnapshot(logger, p.snapshot); err != nil {
		logger.Error(err, "The scheduler's cache gave no snapshot")
	}
}

// sees says whether the scheduler's cache has the node without its startup taint.
func (p *planner) sees(nodeName string) bool {
	info, err := p.snapshot.Get(nodeName)
	return err == nil && !slices.ContainsFunc(info.Node().Spec.Taints, func(t corev1.Taint) bool {
		return t.Key == catalog.StartingTaintKey
	})
}
