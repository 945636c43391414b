package plugin

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	frameworkplugins "k8s.io/kubernetes/pkg/scheduler/framework/plugins"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/explain"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/link"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/podstatus"
	"github.com/slipway-k8s/slipway/plugin/promise"
	"github.com/slipway-k8s/slipway/plugin/reservations"
)

const (
	// launchTries and launchTimeout bound how long one batch is sent; after that the next full state tells what of it
	// was recorded.
	launchTries   = 5
	launchTimeout = 5 * time.Second
)

// pending drops the pods that need no node any more, tells those that no node can help, and returns the others as they
// are now.
func (p *planner) pending(ctx context.Context, entries []intake.Entry, of purpose) []intake.Entry {
	var out []intake.Entry
	var retry []*corev1.Pod
	endings := p.endings(time.Now(), of)
	if err := p.sched.Cache.UpdateSnapshot(klog.FromContext(ctx), p.snapshot); err != nil {
		klog.FromContext(ctx).Error(err, "The scheduler's cache gave no snapshot")
	}
	for _, e := range entries {
		pod := p.pod(catalog.PodRefOf(e.Pod))
		if pod == nil || pod.DeletionTimestamp != nil || of.pending() && p.provided(e, pod) {
			continue
		}
		pod = p.ours(pod)
		if e.NoNodes && p.snapshot.NumNodesInPlacement() > 0 {
			retry = append(retry, pod)
			continue
		}
		if why := p.pinned(pod); why != "" {
			if !of.pending() {
				continue
			}
			p.metrics.pods.WithLabelValues(outcomeUnplaced).Inc()
			p.unplaced[pod.UID] = e
			p.status.Report(podstatus.Note{Pod: catalog.PodRefOf(pod), Message: explain.NotLaunchable(why, e.Verdict), EventReason: "FailedScheduling", Warning: true})
			continue
		}
		delayed := func(until time.Time, n podstatus.Note) {
			p.unplaced[pod.UID] = e
			p.replan.by(until)
			p.status.Report(n)
		}
		if p.awaitsRoom(ctx, endings, e, pod) || p.delays.holdBack(ctx, e, pod, delayed) {
			continue
		}
		if !of.pending() {
			// It runs, and is planned as if it did not.
			free := *pod
			free.Spec.NodeName = ""
			pod = &free
		}
		if e.Pod != pod {
			e.Pod, e.Class = pod, ""
		}
		out = append(out, e)
	}
	p.activatePods(retry)
	return out
}

// provided says whether the pod has a node by now, a promise, or makes room for itself.
func (p *planner) provided(e intake.Entry, pod *corev1.Pod) bool {
	if _, promised := p.promises.Get(pod.UID); promised || pod.Spec.NodeName != "" {
		return true
	}
	if assumed, err := p.sched.Cache.IsAssumedPod(pod); err == nil && assumed {
		return true
	}
	return p.preempts(e, pod)
}

// preempts says whether the pod makes room for itself: it was nominated a node since, or its victims are leaving.
func (p *planner) preempts(e intake.Entry, pod *corev1.Pod) bool {
	if pod.Status.NominatedNodeName == "" {
		return false
	}
	if pod.Status.NominatedNodeName != e.Nominated {
		return true
	}
	info, err := p.snapshot.Get(pod.Status.NominatedNodeName)
	return err == nil && victimsTerminating(info, pod)
}

// launch promises the plan's pods their slots and sends the plan. Its order matters:
//
//  1. promise, so that the scheduler leaves the pods alone from now on;
//  2. send, until the launcher has answered, and learn meanwhile what it tells of other claims;
//  3. let go the pods of what it refused, and keep the rest in view until the catalog shows it;
//  4. nominate pods to existing nodes with room, and tell everybody.
func (p *planner) launch(ctx context.Context, w *work) planned {
	now := time.Now()
	batchName := "batch-" + rand.String(8)
	if w.pending() {
		p.hold(w, now)
	} else {
		p.narrow(w)
	}
	req := link.Request(batchName, w.result.Plan, w.result.Input.Classes)
	logPlan(ctx, w, req, now)
	var refused map[string]*api.Result
	if len(req.GetClaims())+len(req.GetPlacements()) > 0 {
		p.unanswered.asks(req)
		defer p.answered(ctx)
		var resp *api.LaunchResponse
		var err error
		p.meanwhile(ctx, func() { resp, err = send(ctx, p.link, req) })
		if err != nil {
			p.unsent(ctx, w, err)
			return planned{}
		}
		refused = refusals(resp)
		// A full state of a stream that was opened before this answer may lack what the launcher has just recorded.
		now = time.Now()
	}
	names := p.recorded(ctx, w, refused, now)
	p.existing(ctx, w)
	p.tellUnplaced(w)
	p.problems.log(ctx, w.result.Plan.Problems)
	klog.FromContext(ctx).V(1).Info("Batch planned", "batch", batchName, "pods", len(w.entries), "nodeClaims", len(names),
		"placements", len(w.result.Plan.Placements), "unplaced", len(w.result.Plan.Unplaced), "costPerHour", w.result.Plan.CostPerHour,
		"firstFitPerHour", w.result.Plan.FirstFitPerHour)
	if w.pending() {
		return planned{claims: names}
	}
	return planned{claims: names, unplaced: w.result.Plan.Unplaced}
}

// narrow has each claim replace those nodes alone whose pods it takes.
func (p *planner) narrow(w *work) {
	for i := range w.result.Plan.Claims {
		c, nodes := &w.result.Plan.Claims[i], sets.New[string]()
		for _, m := range c.Members {
			for _, ref := range m.Pods {
				if pod := p.pod(ref); pod != nil && pod.Spec.NodeName != "" {
					nodes.Insert(pod.Spec.NodeName)
				}
			}
		}
		if len(nodes) > 0 {
			c.Replaces = sets.List(nodes)
		}
	}
}

// hold enters the promises.
func (p *planner) hold(w *work, now time.Time) {
	var list []promise.Promise
	add := func(members []plan.Member, node, message string) {
		for _, m := range members {
			for _, ref := range m.Pods {
				list = append(list, promise.Promise{
					Pod: ref, NodeClaim: node, NodeName: w.result.Input.Catalog.InFlight[node].NodeName, Since: now,
					Deadline: now.Add(p.args.PromiseTimeout.Duration), Message: message,
				})
			}
		}
	}
	for _, c := range w.result.Plan.Claims {
		add(c.Members, c.Name, explain.Launching(c))
	}
	for _, pl := range w.result.Plan.Placements {
		if pl.InFlight {
			add(pl.Members, pl.Node, explain.Joining(w.result.Input.Catalog.InFlight[pl.Node]))
		}
	}
	p.promises.Hold(list...)
	p.metrics.promises.Set(float64(p.promises.Len()))
}

// send repeats the request until it is answered: claims have their names already, so that a repetition records nothing
// twice. It runs beside the planner's goroutine.
func send(ctx context.Context, to *link.Link, req *api.LaunchRequest) (*api.LaunchResponse, error) {
	wait := 50 * time.Millisecond
	for try := 1; ; try++ {
		attempt, cancel := context.WithTimeout(ctx, launchTimeout)
		resp, err := to.Launch(attempt, req)
		cancel()
		if err == nil || try == launchTries || ctx.Err() != nil {
			return resp, err
		}
		klog.FromContext(ctx).V(2).Info("Launch was not answered, will send it again", "batch", req.GetBatch(), "try", try, "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(wait):
		}
		wait *= 4
	}
}

// unsent lets the pods go. What the launcher may have recorded shows in the full state of a stream that is opened from now on,
// before which nothing is planned.
func (p *planner) unsent(ctx context.Context, w *work, err error) {
	klog.FromContext(ctx).Error(err, "The launcher did not answer; its full state will tell what it has recorded")
	p.view.Distrust(time.Now())
	p.link.Resync()
	uids := make([]types.UID, len(w.entries))
	for i, e := range w.entries {
		uids[i] = e.Pod.UID
	}
	p.count("unsent", len(p.promises.Release(uids...)))
}

func refusals(resp *api.LaunchResponse) map[string]*api.Result {
	out := map[string]*api.Result{}
	for _, r := range slices.Concat(resp.GetClaims(), resp.GetPlacements()) {
		if !r.GetRecorded() {
			out[r.GetName()] = r
		}
	}
	return out
}

// recorded keeps what was recorded in view, lets go the pods of what was refused, and returns the new claims' names.
func (p *planner) recorded(ctx context.Context, w *work, refused map[string]*api.Result, now time.Time) []string {
	var names []string
	for _, c := range w.result.Plan.Claims {
		if r := refused[c.Name]; r != nil {
			p.view.Failed(c.NodePool, r.GetReason(), now)
			p.refuse(ctx, c.Members, r)
			continue
		}
		names = append(names, c.Name)
		p.promises.Recorded(c.Name, now)
		p.view.Record(c, now)
		p.reserveRoom(w, c.Members, reservations.Place{NodeClaim: c.Name, At: now})
		if w.pending() {
			p.delays.launched(c.Name, c.Members, p.pod, now)
			p.tellMembers(c.Members, explain.Launching(c), outcomeLaunched)
		}
	}
	for _, pl := range w.result.Plan.Placements {
		if !pl.InFlight {
			continue
		}
		if r := refused[pl.Node]; r != nil {
			p.refuse(ctx, pl.Members, r)
			continue
		}
		p.promises.Recorded(pl.Node, now)
		p.reserveRoom(w, pl.Members, reservations.Place{NodeClaim: pl.Node, Node: w.result.Input.Catalog.InFlight[pl.Node].NodeName, At: now})
		if w.pending() {
			p.tellMembers(pl.Members, explain.Joining(w.result.Input.Catalog.InFlight[pl.Node]), outcomeInFlight)
		}
	}
	return names
}

// reserveRoom reserves the room that was found for displaced pods: until they and their replacements have come, no other plan
// counts on it.
func (p *planner) reserveRoom(w *work, members []plan.Member, at reservations.Place) {
	if !w.pending() {
		if info, err := p.snapshot.Get(at.Node); at.Node != "" && err == nil {
			at.Beside = info.GetPods()
		}
		at.InMove = w.move
		p.reserved.Reserve(members, at)
	}
}

// refuse lets go the pods of a claim that was not recorded; they come back through the queue.
func (p *planner) refuse(ctx context.Context, members []plan.Member, r *api.Result) {
	klog.FromContext(ctx).V(1).Info("The launcher refused", "nodeClaim", r.GetName(), "reason", r.GetReason(), "message", r.GetMessage())
	for _, m := range members {
		uids := make([]types.UID, len(m.Pods))
		for i, ref := range m.Pods {
			uids[i] = types.UID(ref.UID)
			p.status.Report(podstatus.Note{Pod: ref, Message: explain.Refused(r.GetName(), r.GetReason(), r.GetMessage())})
		}
		p.metrics.pods.WithLabelValues(outcomeRefused).Add(float64(len(uids)))
		p.count("refused", len(p.promises.Release(uids...)))
	}
}

func (p *planner) tellMembers(members []plan.Member, message, outcome string) {
	for _, m := range members {
		p.metrics.pods.WithLabelValues(outcome).Add(float64(len(m.Pods)))
		for _, ref := range m.Pods {
			p.status.Report(podstatus.Note{Pod: ref, Message: message, EventReason: "Nominated"})
		}
	}
}

// existing nominates pods to nodes that exist: the room is theirs against pods of their priority or a lower one, and
// the scheduler places them as any other.
func (p *planner) existing(ctx context.Context, w *work) {
	for _, pl := range w.result.Plan.Placements {
		if pl.InFlight {
			continue
		}
		if !w.pending() {
			// They run, and go where the scheduler places their successors.
			p.reserveRoom(w, pl.Members, reservations.Place{Node: pl.Node, At: time.Now()})
			continue
		}
		for _, m := range pl.Members {
			for _, ref := range m.Pods {
				p.nominate(ctx, ref, pl.Node)
				p.leaveBe(types.UID(ref.UID), time.Now())
			}
			p.activate(m.Pods)
		}
		p.tellMembers(pl.Members, explain.Existing(pl.Node), outcomeExisting)
	}
}

func (p *planner) tellUnplaced(w *work) {
	if !w.pending() {
		return
	}
	p.replanAfterBackoff(time.Now())
	hopeless := 0
	for _, e := range w.entries {
		if e.Hopeless {
			hopeless++
		}
	}
	for _, u := range w.result.Plan.Unplaced {
		p.metrics.pods.WithLabelValues(outcomeUnplaced).Add(float64(len(u.Pods)))
		for _, ref := range u.Pods {
			e := w.byUID[types.UID(ref.UID)]
			if e.Hopeless {
				hopeless--
			}
			e.Hopeless = !w.result.Plan.CutShort
			p.unplaced[e.Pod.UID] = e
			p.status.Report(podstatus.Note{Pod: ref, Message: explain.Unplaced(u, e.Verdict), EventReason: "FailedScheduling", Warning: true})
		}
	}
	if hopeless > 0 {
		p.replan.placed()
	}
	if w.result.Plan.CutShort && len(w.result.Plan.Unplaced) > 0 {
		p.replan.by(time.Now().Add(max(replanFirst, restFactor*(w.result.PlanTime+w.result.VerifyTime))))
	}
}

// loggedProblems are the mistakes in objects that the last plan found.
type loggedProblems map[plan.Problem]bool

// log logs the mistakes that a plan found in objects, each once as long as it stays.
func (l *loggedProblems) log(ctx context.Context, problems []plan.Problem) {
	seen := make(map[plan.Problem]bool, len(problems))
	for _, problem := range problems {
		if !(*l)[problem] && !seen[problem] {
			klog.FromContext(ctx).Info("A mistake in an object is left out of the plan", "object", problem.Object, "field", problem.Field, "problem", problem.Message)
		}
		seen[problem] = true
	}
	*l = seen
}

// schedulerOnly says why only the scheduler's own cycle may bind pods of the profile: plugins that are not
// Kubernetes' own have a say between the choice of a node and the binding. Empty if there are none.
func (p *Plugin) schedulerOnly(profile string) string {
	fw, ok := p.sched.Profiles[profile]
	if !ok {
		return ""
	}
	inTree := sets.KeySet(frameworkplugins.NewInTreeRegistry())
	plugins := fw.ListPlugins()
	for _, point := range []struct {
		name string
		set  config.PluginSet
	}{{"Reserve", plugins.Reserve}, {"Permit", plugins.Permit}, {"PreBind", plugins.PreBind}} {
		for _, pl := range point.set.Enabled {
			if !inTree.Has(pl.Name) && pl.Name != NodeLaunchName && pl.Name != NodeReserveName {
				return fmt.Sprintf("plugin %s at %s", pl.Name, point.name)
			}
		}
	}
	return ""
}
