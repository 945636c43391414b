package plugin

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/plugin/catalogview"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/pending"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/promise"
	"github.com/slipway-k8s/slipway/plugin/reservations"
)

// housekeeping is how often deadlines are looked at.
const housekeeping = time.Second

// plannerConfig is what a planner needs. All fields are required.
type plannerConfig struct {
	inbox      *inbox
	connection *connection
	collected  *intake.Collector
	batch      *intake.Batch
	unplaced   *pending.Pods
	view       *catalogview.View
	promises   *promise.Table
	reserved   *reservations.Table
	delays     *delays
	objects    *objects
	metrics    *metrics

	updates      *catalogUpdates
	adopter      *adopter
	reports      *batchReports
	gate         *questionGate
	provisioner  *provisioner
	displacer    *displacer
	consolidator *consolidator
	keptOff      *keptOffPods
	buffers      *bufferPlacer
	nominations  *nominations
	waker        *waker
	spread       *spreadChanges
	growth       *growth
}

// planner does what is due, step by step, in one goroutine. What it works with belongs to that goroutine; others reach it through
// the collector and the inbox.
type planner struct {
	plannerConfig
	// tidied is when deadlines were last looked at.
	tidied time.Time
}

// run works until the context ends. A panic anywhere in a step costs the step, not the loop.
func (p *planner) run(ctx context.Context) {
	// Pods are looked up in informers: before they are synced, all would seem gone, and what was promised to them would be forgotten.
	// The factory's own wait is over at once as long as none is started, and kube-scheduler starts them later.
	cache.WaitForCacheSync(ctx.Done(), p.objects.podsSynced, p.objects.nodesSynced)
	for ctx.Err() == nil {
		next := p.safeStep(ctx)
		timer := time.NewTimer(time.Until(next))
		select {
		case <-ctx.Done():
		case <-p.collected.Wake():
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (p *planner) safeStep(ctx context.Context) (next time.Time) {
	defer func() {
		if cause := recover(); cause != nil {
			p.metrics.panicked(klog.FromContext(ctx), pointStep, cause)
			next = time.Now().Add(housekeeping)
		}
	}()
	return p.step(ctx, time.Now())
}

// step does what is due and returns when it is to be called again without an event. Its order matters:
//
//  1. apply what the launcher reported: ended nodes release their pods, which come back through the queue;
//  2. release what is overdue;
//  3. take the collected pods into the batch;
//  4. answer the launcher's questions: plan for the pods of nodes that terminate;
//  5. plan the batch if it closes;
//  6. place the pods of capacity buffers, unless others wait for a plan.
func (p *planner) step(ctx context.Context, now time.Time) time.Time {
	p.updates.drain(ctx, now)
	p.updates.releaseInitialized(ctx, now)
	p.updates.releaseReady(ctx, now)
	p.overdue(now)
	p.metrics.replacementPods.Add(float64(p.reserved.Arrived(p.inbox.takePlaced(), now)))
	p.adopter.adopt(now)
	p.take(now)
	more := false
	if !p.gate.closed(now) {
		p.answer(ctx, now)
		more = p.inbox.asking()
	}
	p.keptOff.publish()
	p.consolidator.busy.Store(p.batch.Waits(now))
	next := p.earlier(p.planBatch(ctx, now), now)
	waiting := p.batch.Waits(now)
	p.consolidator.busy.Store(waiting)
	if again := p.buffers.step(ctx, waiting, time.Now()); !again.IsZero() && again.Before(next) {
		next = again
	}
	if more { // Questions about moves are answered one at a step.
		return now
	}
	return next
}

// planBatch plans the batch if it closes, and returns when to look at it again.
func (p *planner) planBatch(ctx context.Context, now time.Time) time.Time {
	wait := now.Add(housekeeping)
	waiting := p.batch.Entries()
	if len(waiting) == 0 {
		p.batch.Hold()
		return wait
	}
	if cause, lost := p.connection.lost(); lost || !p.view.Synced() {
		p.batch.Hold()
		p.reports.unreachable(cause, now)
		return wait
	}
	// Questions took their time. What was received before the connection that there is now, such as the state of a launcher that has started again, is applied first.
	p.updates.drain(ctx, now)
	verdict := p.batch.Check(now)
	if !verdict.Close {
		if !verdict.Next.IsZero() && verdict.Next.Before(wait) {
			wait = verdict.Next
		}
		if again := now.Add(intake.CheckEvery); again.Before(wait) {
			wait = again
		}
		p.reports.gangs(now)
		klog.FromContext(ctx).V(5).Info("Batch is open", "pods", len(waiting), "waiting", verdict.Waiting)
		return wait
	}
	entries := p.batch.Close(now)
	p.reports.closed(entries)
	p.metrics.batches.WithLabelValues(string(verdict.Reason)).Inc()
	p.metrics.batchSize.Observe(float64(len(entries)))
	replacements, others := p.reserved.Divide(entries, now)
	p.metrics.replacementPods.Add(float64(len(replacements)))
	p.planPending(ctx, replacements, pendingPods())
	for _, g := range p.buffers.table.Groups(others) {
		p.planPending(ctx, g.Entries, pendingPods().taking(g.Buffers))
	}
	return time.Now().Add(housekeeping)
}

// planPending plans pending pods: first those for which nodes that exist may be room.
func (p *planner) planPending(ctx context.Context, entries []intake.Entry, of purpose) {
	returned, others := p.unplaced.DivideReturned(entries, time.Now())
	p.provisioner.plan(ctx, others, of)
	p.provisioner.plan(ctx, returned, of.withoutExisting())
}

// answer plans what the launcher asks for.
func (p *planner) answer(ctx context.Context, now time.Time) {
	rooms, decisions := p.inbox.takePlans(now)
	p.displacer.makeRoom(ctx, rooms, now)
	for _, q := range decisions {
		d := decision{question: q, catalog: p.view.State(p.promises.Claims(), now), reserved: p.reserved.Snapshot(), buffers: p.buffers.table.Clone(), expected: p.growth.all()}
		p.consolidator.put(ctx, d, p.view.Synced())
	}
}

// earlier returns the first of wait and the times at which others want to look again.
func (p *planner) earlier(wait, now time.Time) time.Time {
	for _, t := range []time.Time{p.adopter.nextLook(), p.updates.nextLook(now)} {
		if !t.IsZero() && t.Before(wait) {
			wait = t
		}
	}
	return wait
}

// take puts the collected pods into the open batch.
func (p *planner) take(now time.Time) {
	gangs := map[string]bool{}
	for _, e := range p.collected.Take(now) {
		old := p.unplaced.Take(e.Pod.UID)
		if p.unplaced.IsAside(e.Pod.UID, now) {
			continue
		}
		e.Waited = old.Waited
		if e.Gang = plan.GangOf(e.Pod); old.Pod == e.Pod {
			e.Class = old.Class
		} else {
			e.Class = plan.ClassKey(e.Pod)
		}
		if old.Hopeless && old.Class == e.Class && e.Gang.Name == "" && !slices.ContainsFunc(e.Pod.Spec.Volumes, attached) {
			// It has been tried again because something changed on the nodes, which seldom helps to launch one.
			e.Hopeless = true
			p.unplaced.Hold(e)
			p.unplaced.Changed(true, now)
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
	if which := p.unplaced.Due(now); which != nil {
		p.again(now, which)
	}
}

// again puts held pods into the batch: what can be launched has changed, or their gang.
func (p *planner) again(now time.Time, which func(intake.Entry) bool) {
	for _, e := range p.unplaced.Again(which) {
		if !p.batch.Has(e.Pod.UID) {
			p.batch.Add(e, now)
		}
	}
}

// overdue releases pods whose promise has expired, or whose claim the launcher never showed, and pods that NodeReserve kept off
// long enough.
func (p *planner) overdue(now time.Time) {
	if now.Before(p.tidied.Add(housekeeping)) {
		return
	}
	p.tidied = now
	p.metrics.release("deadline", p.promises.ReleaseExpired(now), p.promises)
	p.updates.releaseSiblings(now)
	_, lost := p.connection.lost()
	for _, name := range p.view.Unconfirmed(now, !lost) {
		p.metrics.release("unconfirmed", p.promises.ReleaseClaim(name), p.promises)
	}
	p.view.Forget(now)
	p.metrics.probation.Set(float64(p.view.OnProbation(now)))
	p.delays.tidy(now)
	p.reserved.Tidy(now)
	p.keptOff.lapsed(now)
	p.nominations.tidy(now)
	if woken := p.waker.tend(now); len(woken) > 0 {
		p.again(now, func(e intake.Entry) bool {
			return p.adopter.knows(e.Pod.UID) && slices.Contains(woken, e.Pod.Namespace)
		})
	}
	p.growth.tend(now)
	p.buffers.watchCordons(now)
	for _, e := range p.unplaced.Tidy(now, p.objects.placed) {
		p.batch.Add(e, now)
	}
	p.unplaced.Needs(p.objects.current, now)
	nodeGone, bound := p.spread.take()
	p.unplaced.Spread(nodeGone, bound, now)
}

// triedPod returns a function that reports whether the scheduling queue has given out a pod before, or placed it.
func triedPod(q *queue, unplaced *pending.Pods, promises *promise.Table) func(*corev1.Pod) bool {
	return func(pod *corev1.Pod) bool {
		if _, promised := promises.Get(pod.UID); promised || unplaced.Knows(pod.UID) {
			return true
		}
		return len(pod.Spec.SchedulingGates) > 0 || pod.Status.NominatedNodeName != "" || q.assumed(pod)
	}
}
