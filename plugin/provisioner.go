package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/buffers"
	"github.com/slipway-k8s/slipway/plugin/catalogview"
	"github.com/slipway-k8s/slipway/plugin/explain"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/ondemand"
	"github.com/slipway-k8s/slipway/plugin/pending"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/podstatus"
	"github.com/slipway-k8s/slipway/plugin/promise"
	"github.com/slipway-k8s/slipway/plugin/provision"
	"github.com/slipway-k8s/slipway/plugin/reservations"
	"github.com/slipway-k8s/slipway/plugin/waking"
)

const (
	// divideWithin is how long the parts of a batch are tried on which our code fails, as a multiple of planTimeout.
	divideWithin = 4
	// postponeFor is how long pods wait that could not be planned for no fault of theirs.
	postponeFor = 10 * time.Second
)

// provisioner plans nodes for the pods of a batch, and launches them. The planner's goroutine alone uses it.
type provisioner struct {
	candidates *candidates
	queue      *queue
	snapshot   *snapshot
	// shown means that plans are made on the snapshot as it is: the caller has updated it.
	shown    bool
	needs    *needs
	view     *catalogview.View
	promises *promise.Table
	coming   *comingPods
	reserved *reservations.Table
	buffers  *buffers.Table
	unplaced *pending.Pods
	// planning makes and verifies the plans.
	planning *provision.Provisioner
	sender   *launchSender
	status   *podstatus.Writer
	guard    *guard
	// timeout of one plan.
	timeout time.Duration
	// times are how long nodes need, waitingCost is what an hour in which one pod waits costs in USD.
	times       *waking.Times
	waitingCost float64
	// growth of Deployments.
	growth *growth
}

// plan plans the entries, and launches what is missing. A batch on which our code fails is divided, by namespace first,
// until the one pod is found that fails alone, which is set aside.
func (p *provisioner) plan(ctx context.Context, entries []intake.Entry, of purpose) planned {
	return p.planWithin(ctx, entries, of, time.Now().Add(divideWithin*p.timeout))
}

// planWithin plans the entries, in parts where that fails, until the time. Each division makes the parts smaller, so that
// no more than twice as many plans are made as there are pods.
func (p *provisioner) planWithin(ctx context.Context, entries []intake.Entry, of purpose, end time.Time) planned {
	entries = p.candidates.choose(ctx, entries, of)
	if len(entries) == 0 {
		return planned{}
	}
	w, err := p.attempt(ctx, entries, of)
	var elsewhere *surroundingsError
	switch {
	case err == nil:
		p.unplaced.Planned(entries)
		return p.sender.launch(ctx, w)
	case ctx.Err() != nil:
		return planned{}
	case errors.As(err, &elsewhere) || time.Now().After(end):
		klog.FromContext(ctx).Error(err, "A batch could not be planned and is tried again", "pods", len(entries))
		return p.postpone(entries, of, err)
	case len(entries) == 1:
		return p.setAside(ctx, entries[0], of, err)
	}
	klog.FromContext(ctx).Error(err, "A batch could not be planned and is divided", "pods", len(entries))
	var out planned
	for _, part := range pending.Divide(entries) {
		out = out.with(p.planWithin(ctx, part, of, end))
	}
	return out
}

// surroundingsError is a failure that no pod of the batch has a part in.
type surroundingsError struct{ error }

// Unwrap returns what went wrong.
func (e *surroundingsError) Unwrap() error { return e.error }

// attempt makes and verifies one plan within the timeout. A plan that is cut short is no error. A panic comes back as one.
func (p *provisioner) attempt(ctx context.Context, entries []intake.Entry, of purpose) (w *work, err error) {
	start := time.Now()
	ended := p.guard.metrics.simulations.begin(of, len(entries))
	defer func() {
		if cause := recover(); cause != nil {
			p.guard.metrics.panicked(klog.FromContext(ctx), pointPlan, cause)
			w, err = nil, fmt.Errorf("panic: %v", cause)
		}
		ended()
		p.guard.metrics.planSeconds.Observe(time.Since(start).Seconds())
	}()
	byUID := make(map[types.UID]intake.Entry, len(entries))
	for _, e := range entries {
		byUID[e.Pod.UID] = e
	}
	within, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	result, err := p.provision(within, entries, of)
	if err == nil && len(of.avoid) > 0 && len(result.Plan.Unplaced) > 0 && within.Err() == nil {
		// A node that terminates soon is better than none.
		of.avoid = nil
		result, err = p.provision(within, entries, of)
	}
	if err != nil {
		return nil, err
	}
	result = p.weigh(within, entries, of, result)
	return &work{purpose: of, entries: entries, byUID: byUID, result: result}, ctx.Err()
}

// provision updates the snapshot and plans the pods of the batch on it.
func (p *provisioner) provision(ctx context.Context, entries []intake.Entry, of purpose) (provision.Result, error) {
	if !p.shown {
		if err := p.snapshot.update(ctx); err != nil {
			return provision.Result{}, &surroundingsError{fmt.Errorf("updating the snapshot of the scheduler's cache: %w", err)}
		}
	}
	for _, e := range entries {
		p.guard.injected(pointPlan, e.Pod)
	}
	now := time.Now()
	req, err := p.needs.request(entries, p.view.StateFor(p.promises.Claims(), now, of.sees), p.snapshot)
	if err != nil {
		return provision.Result{}, &surroundingsError{err}
	}
	req.Now, req.Replaces = now, of.terminating
	spare := rooms(p.buffers.EachReserved(of.takes))
	if of.keepsBuffers() {
		spare = p.buffers.Each
	}
	req.Cluster.Going, req.Cluster.Kept = setOf(of.terminating), p.coming.kept(now, p.reserved.Each, spare)
	req.Cluster.TaintsGo = !of.pending()
	if of.kind == api.Purpose_PURPOSE_BUFFER {
		req.Cluster.Rank = p.bufferRank()
	}
	req.Cluster.Room = p.roomOf(entries, of, ondemand.SharesOf(req.Cluster.Catalog.NodePools), now)
	if of.pending() {
		req.Expected = p.growth.of(entries)
	}
	result, err := p.planning.Provision(ctx, req)
	if err != nil {
		return provision.Result{}, err
	}
	p.guard.metrics.rounds.Observe(float64(result.Rounds))
	if result.Plan.CutShort {
		p.guard.metrics.cutShort.WithLabelValues(controllerOf(of)).Inc()
	}
	return result, nil
}

// roomOf returns which nodes that exist are room for the entries. The scheduler has tried pending pods on every node, but perhaps not on those that came a
// moment ago; those of a node that terminates it has tried nowhere. Pods of a gang have been tried one by one, and perhaps given their nodes back. A share
// allows pods of a plan on spot nodes that it did not allow one by one.
func (p *provisioner) roomOf(entries []intake.Entry, of purpose, shares ondemand.Shares, now time.Time) func(node string) bool {
	anywhere := !of.pending() || slices.ContainsFunc(entries, func(e intake.Entry) bool {
		return p.queue.profiles.gathering(e.Pod) != "" || shares.Governs(e.Pod)
	})
	return func(node string) bool {
		return of.standby == "" && !of.elsewhere && (anywhere && !of.avoid[node] || p.view.Young(node, now))
	}
}

// setAside keeps a pod from being planned for a while whose planning failed while it was alone. The launcher
// asks again about a displaced pod: it has no room until then.
func (p *provisioner) setAside(ctx context.Context, e intake.Entry, of purpose, cause error) planned {
	if !of.pending() {
		return p.postpone([]intake.Entry{e}, of, cause)
	}
	until := p.unplaced.SetAside(e, time.Now())
	p.guard.metrics.pods.WithLabelValues(outcomeAside).Inc()
	klog.FromContext(ctx).Error(cause, "Pod is set aside", "pod", klog.KObj(e.Pod), "until", until)
	p.status.Report(podstatus.Note{Pod: catalog.PodRefOf(e.Pod), Message: explain.SetAside(cause.Error(), until), EventReason: "FailedScheduling", Warning: true})
	return planned{}
}

// postpone leaves pods to a later batch, for what no one of them is known to have done.
func (p *provisioner) postpone(entries []intake.Entry, of purpose, cause error) planned {
	u := plan.Unplaced{Reasons: []plan.Reason{{Code: "PlanningFailed", Message: "planning failed and is tried again: " + cause.Error()}}}
	for _, e := range entries {
		u.Pods = append(u.Pods, catalog.PodRefOf(e.Pod))
	}
	if !of.pending() {
		return planned{unplaced: []plan.Unplaced{u}}
	}
	for _, e := range entries {
		p.unplaced.Hold(e)
		p.status.Report(podstatus.Note{Pod: catalog.PodRefOf(e.Pod), Message: explain.Unplaced(u, e.Verdict)})
	}
	p.unplaced.PlanBy(time.Now().Add(postponeFor))
	return planned{}
}
