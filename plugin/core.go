package plugin

import (
	"cmp"
	"context"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/slipway-k8s/slipway/plugin/batch"
	"github.com/slipway-k8s/slipway/plugin/buffers"
	"github.com/slipway-k8s/slipway/plugin/catalogview"
	"github.com/slipway-k8s/slipway/plugin/incremental"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/link"
	"github.com/slipway-k8s/slipway/plugin/pending"
	"github.com/slipway-k8s/slipway/plugin/podstatus"
	"github.com/slipway-k8s/slipway/plugin/provision"
	"github.com/slipway-k8s/slipway/plugin/provision/podclass"
	"github.com/slipway-k8s/slipway/plugin/verify"
	"github.com/slipway-k8s/slipway/plugin/waking"
)

// coreConfig is what a core is made of. All fields are required.
type coreConfig struct {
	shared
	observed
	scheduler Scheduler
	args      *Args
	// served are the profiles with NodeLaunch, sorted; handle is that of one of them.
	served  []string
	handle  fwk.Handle
	reserve []*nodeReserve
}

// core is what works behind the two plugins: the planner, and the others that have a goroutine.
type core struct {
	queue        *queue
	link         *link.Link
	planner      *planner
	consolidator *consolidator
	status       *podstatus.Writer
	answerer     *answerer
	ends         *podEnds
}

// newCore returns a core for the scheduler. It starts nothing.
func newCore(ctx context.Context, c coreConfig) (*core, error) {
	s := c.scheduler
	served := &profiles{served: c.served, adopted: c.args.Adopt, frameworks: s.Scheduler.Profiles, extenders: s.Scheduler.Extenders, configured: s.Extenders}
	q := &queue{sched: s.Scheduler, objects: c.objects, profiles: served, devices: c.handle.SharedDRAManager()}
	to, err := link.New(link.Config{
		Socket: c.args.Socket, Identity: s.Identity, LeaseNamespace: s.LeaseNamespace, LeaseName: s.LeaseName,
		OnCatalog: c.inbox.update, OnQuestion: c.inbox.question, OnConnection: c.connection.set,
	})
	if err != nil {
		return nil, err
	}
	filters := verify.Config{
		Profiles: incremental.Stock(s.Profiles), Without: []string{NodeLaunchName, NodeReserveName}, OutOfTree: s.OutOfTree, Extenders: s.Extenders,
		Informers: s.Informers, Client: s.Client, DRA: c.handle.SharedDRAManager(), CSI: c.handle.SharedCSIManager(),
	}
	planning, err := newPlanning(ctx, c.args, filters)
	if err != nil {
		return nil, err
	}
	beside, err := newPlanning(ctx, c.args, filters)
	if err != nil {
		return nil, err
	}
	needs := &needs{
		Needs: podclass.Needs{
			Spreads: podclass.NewSpreads(s.Profiles, s.Informers), Volumes: podclass.NewVolumes(s.Informers), Affinity: podclass.AddedAffinity(s.Profiles),
		},
		objects: c.objects, profiles: served,
	}
	status := podstatus.New(podstatus.Config{Client: s.Client, Pods: c.objects.pods, Recorder: s.Recorder, Karpenter: cmp.Or(s.Karpenter, s.Recorder), Adopts: served.adopts})
	coming := &comingPods{queue: q, promises: c.promises}
	consolidator := newConsolidator(consolidatorConfig{
		queue: q, coming: coming, needs: needs, planning: beside, askAtMost: c.args.PlanTimeout.Duration / askShare, link: to, metrics: c.metrics, sleep: c.sleep,
	})
	parts := plannerParts{
		coreConfig: c, queue: q, coming: coming, link: to, planning: planning, needs: needs, status: status, consolidator: consolidator,
		view: catalogview.New(), unplaced: pending.New(), snapshot: q.newSnapshot(), buffers: buffers.NewTable(),
		times: waking.NewTimes(), growth: &growth{objects: c.objects, off: !*c.args.ExpectGrowth},
	}
	planner, err := parts.planner()
	if err != nil {
		return nil, err
	}
	w := &watcher{
		inbox: c.inbox, collected: c.collected, promises: c.promises, reserved: c.reserved, daemonSets: c.objects.daemonSets,
		adopter: planner.adopter, updates: planner.updates, spread: planner.spread, metrics: c.metrics,
	}
	if err := w.watch(s.Informers); err != nil {
		return nil, err
	}
	ends := newPodEnds(s.Client, c.delays, c.collected.Notify)
	if err := ends.watch(s.Informers.Core().V1().Pods().Informer()); err != nil {
		return nil, err
	}
	busy := &busyView{queue: q, promises: c.promises, reserved: c.reserved, buffers: &parts.bufferBoard, metrics: c.metrics, snapshot: q.newSnapshot()}
	return &core{
		queue: q, link: to, planner: planner, consolidator: consolidator, status: status, ends: ends,
		answerer: &answerer{inbox: c.inbox, busy: busy, link: to},
	}, nil
}

// run starts every goroutine, and returns when all have ended, after the context has.
func (c *core) run(ctx context.Context) {
	defer func() {
		if err := c.link.Close(); err != nil {
			klog.FromContext(ctx).V(2).Info("Link to the launcher did not close", "err", err)
		}
	}()
	loops := []func(context.Context){c.planner.run, c.consolidator.run, c.status.Run, c.link.RunCatalog, c.link.RunQuestions}
	for range answerers {
		loops = append(loops, c.answerer.run)
	}
	for range endLookups {
		loops = append(loops, c.ends.run)
	}
	together(ctx, loops...)
}

// plannerParts are what the planner and the objects of its goroutine are made of.
type plannerParts struct {
	coreConfig
	queue        *queue
	coming       *comingPods
	link         *link.Link
	planning     *provision.Provisioner
	needs        *needs
	status       *podstatus.Writer
	consolidator *consolidator
	view         *catalogview.View
	unplaced     *pending.Pods
	snapshot     *snapshot
	buffers      *buffers.Table
	bufferBoard  bufferBoard
	times        *waking.Times
	growth       *growth
}

// planner returns the planner with the objects of its goroutine, each made after those that it needs.
func (p *plannerParts) planner() (*planner, error) {
	open, err := intake.NewBatch(intake.Config{
		Windows: batch.Config{
			Idle: p.args.BatchIdle.Duration, Max: p.args.BatchMax.Duration, GangTimeout: p.args.GangTimeout.Duration,
		},
		Collector: p.collected, Owners: p.objects.owners, Tried: triedPod(p.queue, p.unplaced, p.promises), Idle: p.queue.idle,
	})
	if err != nil {
		return nil, err
	}
	updates := &catalogUpdates{catalogUpdatesConfig: catalogUpdatesConfig{
		inbox: p.inbox, view: p.view, promises: p.promises, reserved: p.reserved, buffers: p.buffers, unplaced: p.unplaced, delays: p.delays,
		status: p.status, queue: p.queue, snapshot: p.snapshot, begins: p.begins, metrics: p.metrics,
		shares: p.shares, times: p.times,
		promiseTimeout: p.args.PromiseTimeout.Duration,
	}, siblings: siblingWaits{promises: p.promises, queue: p.queue, last: map[types.UID]time.Time{}}}
	adopter := &adopter{adopterConfig: adopterConfig{
		queue: p.queue, collected: p.collected, batch: open, unplaced: p.unplaced, promises: p.promises, status: p.status,
		// Without hooks nothing shows the first cycle.
		leads: func() bool { return !*p.args.Hooks || p.begins.over.Load() },
	}}
	keptOff := &keptOffPods{reserve: p.reserve, reserved: p.reserved, buffers: p.buffers, board: &p.bufferBoard, view: p.view, queue: p.queue}
	provisioner := p.provisioner(updates, adopter)
	return &planner{plannerConfig: plannerConfig{
		inbox: p.inbox, connection: p.connection, collected: p.collected, batch: open, unplaced: p.unplaced, view: p.view,
		promises: p.promises, reserved: p.reserved, delays: p.delays, objects: p.objects, metrics: p.metrics,
		growth:  p.growth,
		spread:  newSpreadChanges(),
		updates: updates, adopter: adopter, provisioner: provisioner, consolidator: p.consolidator, keptOff: keptOff,
		reports:     &batchReports{batch: open, status: p.status, socket: p.args.Socket, reported: map[types.UID]time.Time{}, lacking: map[types.UID]int{}},
		gate:        &questionGate{inbox: p.inbox, view: p.view},
		waker:       &waker{sleep: p.sleep, queue: p.queue, status: p.status, asleep: p.metrics.asleep},
		nominations: &nominations{queue: p.queue, unplaced: p.unplaced, snapshot: p.snapshot, status: p.status},
		buffers:     newBufferPlacer(p, provisioner, keptOff.publish),
		displacer: &displacer{displacerConfig{
			provisioner: provisioner, view: p.view, reserved: p.reserved, buffers: p.buffers, queue: p.queue, snapshot: p.snapshot, link: p.link,
			metrics: p.metrics, sleep: p.sleep, publish: keptOff.publish,
		}},
	}}, nil
}

// provisioner returns what plans and launches.
func (p *plannerParts) provisioner(updates *catalogUpdates, adopter *adopter) *provisioner {
	beside := func(ctx context.Context, call func()) {
		// Whatever woke the planner meanwhile waits for the step after this one.
		defer p.collected.Notify()
		meanwhile(call, p.collected.Wake(), func(now time.Time) {
			updates.drain(ctx, now)
			updates.releaseInitialized(ctx, now)
			updates.releaseReady(ctx, now)
		})
	}
	of := &gangs{
		queue: p.queue, link: p.link, promises: p.promises, unplaced: p.unplaced, delays: p.delays, status: p.status, metrics: p.metrics,
		waiting: func(each func(fwk.WaitingPod)) { p.handle.IterateOverWaitingPods(each) }, beside: beside,
	}
	from := &candidates{
		queue: p.queue, snapshot: p.snapshot, promises: p.promises, unplaced: p.unplaced, delays: p.delays, gangs: of, sleep: p.sleep, status: p.status,
		metrics: p.metrics, withClaims: !*p.args.IgnoreDRARequests,
	}
	return &provisioner{
		candidates: from, queue: p.queue, snapshot: p.snapshot, needs: p.needs, view: p.view, promises: p.promises, reserved: p.reserved, buffers: p.buffers,
		coming:   p.coming,
		unplaced: p.unplaced, planning: p.planning, status: p.status, guard: p.guard, timeout: p.args.PlanTimeout.Duration,
		times: p.times, waitingCost: float64(*p.args.WaitingCost), growth: p.growth,
		sender: &launchSender{launchSenderConfig: launchSenderConfig{
			link: p.link, updates: updates, adopter: adopter, view: p.view, promises: p.promises, reserved: p.reserved, buffers: p.buffers,
			unplaced: p.unplaced, delays: p.delays, status: p.status, queue: p.queue, snapshot: p.snapshot, metrics: p.metrics,
			promiseTimeout: p.args.PromiseTimeout.Duration, beside: beside, times: p.times,
			gangs: of, candidates: from,
		}},
	}
}
