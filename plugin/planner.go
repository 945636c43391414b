package plugin

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/batch"
	"github.com/slipway-k8s/slipway/plugin/catalogview"
	"github.com/slipway-k8s/slipway/plugin/explain"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/podstatus"
	"github.com/slipway-k8s/slipway/plugin/provision"
)

const (
	// housekeeping is how often deadlines are looked at.
	housekeeping = time.Second
	// poll is how often an initialized node is looked for in the scheduler's cache.
	poll = 20 * time.Millisecond
)

// planner owns everything that its goroutine works on; others reach it through the collector and the inbox. Only the
// atomics are read elsewhere.
type planner struct {
	*Plugin
	// provisioner makes the plans of the planner's goroutine.
	provisioner *provision.Provisioner
	// snapshot is the planner's own view of the scheduler's cache, updated like the scheduler's: under the cache's
	// lock, and only what changed. The scheduler's own may be read nowhere but in a scheduling cycle.
	snapshot *internalcache.Snapshot
	view     *catalogview.View

	// batch is the open one.
	batch *intake.Batch
	// unplaced are pods for which nothing could be planned: planned again when what can be launched changes.
	unplaced map[types.UID]intake.Entry
	// aside are pods whose planning failed.
	aside asides
	// told is when a pod of the open batch was last told that the launcher is away.
	told map[types.UID]time.Time
	next time.Time
	// consolidator decides about the nodes there are, beside the planner.
	consolidator *consolidator
	// problems are the mistakes in objects that were logged.
	problems loggedProblems
	// replan is when the unplaced pods are planned again.
	replan replanning
	// askedEarly is since when questions of the launcher wait for its state; zero where none do.
	askedEarly time.Time
	// unanswered is what the launcher is told while it has not answered.
	unanswered unanswered

	// adopted are pods of other schedulers.
	adopted adopted

	// awaited is how many nodes are awaited in the scheduler's cache, to let the pods go that are promised them.
	awaited atomic.Int64
}

func newPlanner(p *Plugin, provisioner *provision.Provisioner) (*planner, error) {
	pl := &planner{
		Plugin: p, provisioner: provisioner, snapshot: internalcache.NewEmptySnapshot(), view: catalogview.New(),
		unplaced: map[types.UID]intake.Entry{}, aside: asides{},
		told: map[types.UID]time.Time{},
	}
	var err error
	pl.batch, err = intake.NewBatch(intake.Config{
		Windows: batch.Config{
			Idle: p.args.BatchIdle.Duration, Max: p.args.BatchMax.Duration, GangTimeout: p.args.GangTimeout.Duration,
		},
		Collector: p.collected, Owners: p.owners, Tried: pl.tried,
	})
	return pl, err
}

// step does what is due and returns when it wants to be called again without an event. Its order matters:
//
//  1. learn what the launcher told: ended nodes let pods go, which come back through the queue;
//  2. let go what is overdue;
//  3. take the collected pods into the batch;
//  4. plan the batch if it closes, and the pods of nodes that go.
func (p *planner) step(ctx context.Context, now time.Time) time.Time {
	p.hear(ctx, now)
	p.settle(ctx, now)
	p.open(ctx, now)
	p.overdue(now)
	p.metrics.successors.Add(float64(p.reserved.Arrived(p.inbox.takePlaced(), now)))
	p.adopt(now)
	p.take(now)
	wait := now.Add(housekeeping)
	if !p.early(now) {
		p.answer(ctx, now)
	}
	p.publish()
	if len(p.batch.Entries()) == 0 {
		p.batch.Hold()
		return p.earlier(wait, now)
	}
	if since, lost := p.connection.lost(); lost || !p.view.Synced() {
		p.tellUnreachable(since, now)
		return p.earlier(wait, now)
	}
	verdict := p.batch.Check(now)
	if !verdict.Close {
		if !verdict.Next.IsZero() && verdict.Next.Before(wait) {
			wait = verdict.Next
		}
		if again := now.Add(intake.CheckEvery); again.Before(wait) {
			wait = again
		}
		p.tellGangs(now)
		klog.FromContext(ctx).V(5).Info("Batch is open", "pods", len(p.batch.Entries()), "waiting", verdict.Waiting)
		return p.earlier(wait, now)
	}
	entries := p.batch.Close(now)
	for _, e := range entries {
		delete(p.told, e.Pod.UID)
	}
	p.metrics.batches.WithLabelValues(string(verdict.Reason)).Inc()
	p.metrics.batchSize.Observe(float64(len(entries)))
	replacements, others := p.reserved.Divide(entries, now)
	p.metrics.successors.Add(float64(len(replacements)))
	p.plan(ctx, replacements, purpose{})
	p.plan(ctx, others, purpose{})
	return p.earlier(time.Now().Add(housekeeping), now)
}

// answer plans what the launcher asks for.
func (p *planner) answer(ctx context.Context, now time.Time) {
	if going := p.inbox.takeGoing(); len(going) > 0 {
		p.goingAway(ctx, going, now)
	}
	for _, q := range p.inbox.takeMoves() {
		if q.GetMove() != nil {
			p.move(ctx, q, now)
		} else {
			p.consolidator.put(ctx, q, p.reserved.Snapshot(), p.view.State(p.promises.Claims(), now), p.view.Synced())
		}
	}
}

// earlier is wait, or the poll for nodes that settle, or become open.
func (p *planner) earlier(wait, now time.Time) time.Time {
	if again := p.adopted.looked.Add(adoptEvery); p.foreign.Load() && again.Before(wait) {
		wait = again
	}
	if again := now.Add(poll); p.view.Settling() > 0 && again.Before(wait) {
		return again
	}
	if again := now.Add(openEvery); p.view.Ready() > 0 && again.Before(wait) {
		return again
	}
	return wait
}

// take puts the collected pods into the open batch.
func (p *planner) take(now time.Time) {
	gangs := map[string]bool{}
	for _, e := range p.collected.Take(now) {
		uid := e.Pod.UID
		old := p.unplaced[uid]
		delete(p.unplaced, uid)
		if p.aside.holds(uid, now) {
			continue
		}
		e.Class, e.Gang = plan.ClassKey(e.Pod), plan.GangOf(e.Pod)
		if old.Hopeless && old.Class == e.Class && e.Gang.Name == "" && !slices.ContainsFunc(e.Pod.Spec.Volumes, attached) {
			// It has been tried again because something changed on the nodes, which seldom helps to launch one.
			e.Hopeless = true
			p.unplaced[uid] = e
			p.replan.changed(true, now)
			continue
		}
		p.batch.Add(e, e.At)
		if e.Gang.Name != "" {
			gangs[e.Gang.Name] = true
		}
	}
	if len(gangs) > 0 {
		p.again(now, func(e intake.Entry) bool { return gangs[e.Gang.Name] })
	}
	if p.replan.due(now) {
		p.again(now, func(intake.Entry) bool { return true })
	}
}

// again puts unplaced pods into the batch: what can be launched has changed, or their gang.
func (p *planner) again(now time.Time, which func(intake.Entry) bool) {
	var list []intake.Entry
	for uid, e := range p.unplaced {
		if which(e) {
			list = append(list, e)
			delete(p.unplaced, uid)
		}
	}
	intake.Sort(list)
	for _, e := range list {
		if !p.batch.Has(e.Pod.UID) {
			p.batch.Add(e, now)
		}
	}
}

// tried reports whether the scheduling queue has given out the pod before, or placed it.
func (p *planner) tried(pod *corev1.Pod) bool {
	if _, ok := p.unplaced[pod.UID]; ok {
		return true
	}
	if _, ok := p.promises.Get(pod.UID); ok {
		return true
	}
	if _, ok := p.aside[pod.UID]; ok || len(pod.Spec.SchedulingGates) > 0 || pod.Status.NominatedNodeName != "" {
		return true
	}
	assumed, err := p.sched.Cache.IsAssumedPod(pod)
	return err == nil && assumed
}

// overdue lets go pods whose promise has expired, or whose claim the launcher never showed, and pods that NodeReserve
// kept off long enough.
func (p *planner) overdue(now time.Time) {
	if now.Before(p.next) {
		return
	}
	p.next = now.Add(housekeeping)
	p.count("deadline", len(p.promises.ReleaseExpired(now)))
	for _, name := range p.view.Unconfirmed(now) {
		p.count("unconfirmed", len(p.promises.ReleaseClaim(name)))
	}
	p.view.Forget(now)
	p.metrics.probation.Set(float64(p.view.OnProbation(now)))
	p.delays.tidy(now)
	p.reserved.Tidy(now)
	for _, r := range p.reserve {
		if pods := r.lapsed(now); len(pods) > 0 {
			p.activatePods(pods)
		}
	}
	for uid, x := range p.aside {
		if pod := p.pod(catalog.PodRefOf(x.entry.Pod)); pod == nil || pod.UID != uid || pod.Spec.NodeName != "" {
			delete(p.aside, uid)
		}
	}
	for _, e := range p.aside.due(now) {
		p.batch.Add(e, now)
	}
	for uid, e := range p.unplaced {
		if pod := p.pod(catalog.PodRefOf(e.Pod)); pod == nil || pod.Spec.NodeName != "" {
			delete(p.unplaced, uid)
		}
	}
}

func (p *planner) count(why string, n int) {
	if n > 0 {
		p.metrics.released.WithLabelValues(why).Add(float64(n))
	}
	p.metrics.promises.Set(float64(p.promises.Len()))
}

// tellGangs says on the pods of gangs that wait for more than a moment what they wait for.
func (p *planner) tellGangs(now time.Time) {
	for _, e := range p.batch.Entries() {
		if e.Gang.Name == "" || now.Sub(e.At) < housekeeping || !p.told[e.Pod.UID].IsZero() {
			continue
		}
		if n := p.batch.Lacking(e.Gang.Name, now); n > 0 {
			p.told[e.Pod.UID] = now
			p.status.Report(podstatus.Note{Pod: catalog.PodRefOf(e.Pod), Message: explain.GangWaits(e.Gang.Name, n, e.Verdict), EventReason: "FailedScheduling"})
		}
	}
}

// tellUnreachable says on the waiting pods, again each minute, that nothing can be launched.
func (p *planner) tellUnreachable(since, now time.Time) {
	p.batch.Hold()
	for _, e := range p.batch.Entries() {
		if now.Sub(p.told[e.Pod.UID]) > time.Minute {
			p.told[e.Pod.UID] = now
			p.status.Report(podstatus.Note{Pod: catalog.PodRefOf(e.Pod), Message: p.unreachable(since, e.Verdict)})
		}
	}
}

// publish makes the reservations visible to others, and wakes the pods that were kept off room which is free again.
func (p *planner) publish() {
	freed := p.reserved.Publish(p.view.InFlight())
	p.consolidator.busy.Store(len(p.batch.Entries()) > 0)
	if !freed {
		return
	}
	for _, r := range p.reserve {
		p.activatePods(r.freed())
	}
}
