package launcher

import (
	"context"
	"errors"

	"sigs.k8s.io/controller-runtime/pkg/manager"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/api"
	"github.com/slipway-k8s/slipway/launcher/billing"
	"github.com/slipway-k8s/slipway/launcher/bind"
	"github.com/slipway-k8s/slipway/launcher/block"
	"github.com/slipway-k8s/slipway/launcher/budget"
	"github.com/slipway-k8s/slipway/launcher/buffer"
	"github.com/slipway-k8s/slipway/launcher/collect"
	"github.com/slipway-k8s/slipway/launcher/commitments"
	"github.com/slipway-k8s/slipway/launcher/consistency"
	"github.com/slipway-k8s/slipway/launcher/decisions"
	"github.com/slipway-k8s/slipway/launcher/disrupt"
	"github.com/slipway-k8s/slipway/launcher/drift"
	"github.com/slipway-k8s/slipway/launcher/expire"
	"github.com/slipway-k8s/slipway/launcher/handover"
	"github.com/slipway-k8s/slipway/launcher/health"
	"github.com/slipway-k8s/slipway/launcher/interrupt"
	"github.com/slipway-k8s/slipway/launcher/interruptions"
	"github.com/slipway-k8s/slipway/launcher/join"
	"github.com/slipway-k8s/slipway/launcher/launch"
	"github.com/slipway-k8s/slipway/launcher/leadership"
	"github.com/slipway-k8s/slipway/launcher/nodeclass"
	"github.com/slipway-k8s/slipway/launcher/nodepool"
	"github.com/slipway-k8s/slipway/launcher/prefetch"
	"github.com/slipway-k8s/slipway/launcher/reclaim"
	"github.com/slipway-k8s/slipway/launcher/reject"
	"github.com/slipway-k8s/slipway/launcher/server"
	"github.com/slipway-k8s/slipway/launcher/sleep"
	"github.com/slipway-k8s/slipway/launcher/terminate"
	"github.com/slipway-k8s/slipway/launcher/voluntary"
	"github.com/slipway-k8s/slipway/launcher/zonalshift"
)

// parts are dependencies that several parts share.
type parts struct {
	late       *lateParts
	binder     *bind.Binder
	leader     *leadership.Leadership
	terminator *terminate.Terminator
	server     *server.Server
	peer       *server.Peer
	launcher   *launch.Launcher
	health     *health.Health
	beside     *neighbour
	ledger     *budget.Ledger
	voluntary  *voluntary.Metrics
	mover      *disrupt.Executor
	buffers    *buffer.Controller
	gates      Gates
	// commitments are the account's Savings Plans and Reserved Instances.
	commitments *commitments.Commitments
	// decisions of the last day.
	decisions *decisions.Recorder
	// learned are the rates of spot interruptions.
	learned *interruptions.Recorder
}

// wire creates every part and adds it to the manager, in the order of a node's life.
func (l *Launcher) wire() error {
	p, err := l.parts()
	if err != nil {
		return err
	}
	decider, err := l.consolidation(p)
	if err != nil {
		return err
	}
	return errors.Join(
		l.classes(p),
		l.joining(p),
		p.terminator.SetupWithManager(l.manager),
		l.termination(p),
		add(l.manager, decider.Run),
		l.exchange(p),
		l.probes(p),
		l.api(p, decider),
		l.billing(p),
	)
}

func (l *Launcher) parts() (p parts, err error) {
	mgr, settings := l.manager, l.config.Settings
	if p.leader, err = leadership.New(leadership.Config{Reader: mgr.GetAPIReader()}); err != nil {
		return p, err
	}
	l.config.Gate.Follow(p.leader)
	if err = l.overlay(p.leader); err != nil {
		return p, err
	}
	l.own = l.ownLists()
	// The server needs the failed launches and Karpenter's state, and launches need the server.
	late := &lateParts{}
	p.late = late
	if err = l.records(&p, late); err != nil {
		return p, err
	}
	if p.beside, err = newNeighbour(mgr.GetAPIReader(), settings.HandoverSelector, late.recheck); err != nil {
		return p, err
	}
	handovers, err := handover.New(handover.Config{
		Client: mgr.GetClient(), Claims: l.cache.Claims, Guard: p.leader, Events: l.recorders.slipway, Neighbour: p.beside, Changed: late.recheck,
	})
	if err != nil {
		return p, err
	}
	p.beside.keeps = handovers.Keeps
	p.terminator, err = terminate.New(terminate.Config{
		Client: mgr.GetClient(), Pods: l.cache.Pods, Reader: mgr.GetAPIReader(), Cloud: l.config.Cloud, Asker: late, Guard: p.leader,
		Events: l.recorders.karpenter, Registerer: l.registerer, Ours: p.beside.ours, Alone: p.beside.Alone,
	})
	if err != nil {
		return p, err
	}
	p.launcher, err = launch.New(launch.Config{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Cloud: l.config.Cloud, Guard: p.leader,
		Events: l.recorders.karpenter, Failed: late.failed, Leading: l.config.Gate.Open, Registerer: l.registerer,
		MinValuesBestEffort: settings.MinValuesPolicy == minValuesBestEffort, Overlaid: l.own.of, Bindings: late.bindings,
	})
	if err != nil {
		return p, err
	}
	p.health, err = health.New(health.Config{
		Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Events: l.recorders.slipway, Leading: l.config.Gate.Open, Changed: late.recheck, Registerer: l.registerer,
	})
	if err != nil {
		return p, err
	}
	if p.peer, err = server.NewPeer(l.registerer, l.config.Gate.Open); err != nil {
		return p, err
	}
	if p.binder, err = bind.NewBinder(mgr.GetClient(), mgr.GetAPIReader(), l.recorders.slipway); err != nil {
		return p, err
	}
	p.server, err = server.New(server.Config{
		Socket: settings.Socket, Client: mgr.GetClient(), Pods: l.cache.Pods, Claims: l.cache.Claims, Reader: mgr.GetAPIReader(), Cache: mgr.GetCache(), Offers: p.learned,
		Leader: p.leader, Launcher: p.launcher, Peer: p.peer, Bound: p.binder.Bound, Patience: settings.patience(), Manages: p.beside.manages, Own: p.beside.own, HandedOver: p.beside.handedOver, Gate: p.health.Gate,
		Commitments: p.commitments.List, Overlay: l.ownLists().apply, Overlays: l.overlays != nil, Leaving: leavingSoon(mgr.GetClient(), l.cache.Claims, settings.ExpiryWindow.Duration, late.inMove), InMove: late.inMove,
	})
	late.server = p.server
	if err != nil {
		return p, err
	}
	if p.ledger, err = budget.New(l.counted()); err != nil {
		return p, err
	}
	if p.voluntary, err = voluntary.NewMetrics(l.registerer, p.ledger, l.config.Gate.Open); err != nil {
		return p, err
	}
	if p.buffers, p.gates, err = l.buffers(p); err != nil {
		return p, err
	}
	p.mover, err = l.mover(p)
	late.mover = p.mover
	return p, errors.Join(err, add(mgr, p.leader.Run, p.beside.run, handovers.Run, l.config.Cloud.Refresh, p.launcher.Run, p.health.Run, p.commitments.Run, p.learned.Run, p.decisions.Run, p.server.Run))
}

// records creates what keeps and reads records in ConfigMaps: decisions, commitments, and what is learned of interruptions.
func (l *Launcher) records(p *parts, late *lateParts) (err error) {
	if p.decisions, err = l.decisions(); err != nil {
		return err
	}
	late.decisions = p.decisions
	if p.commitments, err = l.commitments(late); err != nil {
		return err
	}
	p.learned, err = l.interruptions(late)
	l.learned = p.learned
	return err
}

// interruptions returns what learns rates of spot interruptions.
func (l *Launcher) interruptions(late *lateParts) (*interruptions.Recorder, error) {
	name, err := configMapName("interruptionsConfigMap", l.config.Settings.InterruptionsConfigMap)
	if err != nil {
		return nil, err
	}
	scorer := l.config.Scorer
	if !l.config.Settings.SpotPlacementScores {
		scorer = nil
	}
	return interruptions.New(interruptions.Config{
		ConfigMap: name, PerPod: l.config.Settings.InterruptionCost, Client: l.manager.GetClient(), Claims: l.cache.Claims, Reader: l.manager.GetAPIReader(), Offers: l.config.Cloud,
		Leading: l.config.Gate.Open, Changed: late.recheck, Events: l.recorders.slipway, Registerer: l.registerer, Scorer: scorer,
	})
}

// commitments returns the reader of Savings Plans and Reserved Instances.
func (l *Launcher) commitments(late *lateParts) (*commitments.Commitments, error) {
	name, err := configMapName("commitmentsConfigMap", l.config.Settings.CommitmentsConfigMap)
	if err != nil {
		return nil, err
	}
	account := l.config.Account
	if !l.config.Settings.CommitmentsFromAWS {
		account = nil
	}
	return commitments.New(commitments.Config{
		ConfigMap: name, Account: account, Records: l.config.Settings.records(), Share: l.config.Settings.CommitmentShare, Reader: l.manager.GetAPIReader(), Client: l.manager.GetClient(), Events: l.recorders.slipway, Leading: l.config.Gate.Open,
		Types: typesByClass(l.manager.GetClient(), l.config.Cloud), Changed: late.recheck, Registerer: l.registerer,
	})
}

// decisions returns the record of the last day's decisions.
func (l *Launcher) decisions() (*decisions.Recorder, error) {
	return decisions.New(decisions.Config{
		Namespace: l.config.Settings.records(), Client: l.manager.GetClient(), Reader: l.manager.GetAPIReader(), Informers: l.manager.GetCache(), Leading: l.config.Gate.Open,
	})
}

// billing adds the record of what nodes cost.
func (l *Launcher) billing(p parts) error {
	if l.config.Settings.records() == "" {
		return nil
	}
	recorder, err := billing.New(billing.Config{
		Namespace: l.config.Settings.BillNamespace, Cluster: l.config.Settings.ClusterName, Client: l.manager.GetClient(), Cache: l.cache, Reader: l.manager.GetAPIReader(),
		Informers: l.manager.GetCache(), Leading: l.config.Gate.Open, Types: typesByClass(l.manager.GetClient(), l.config.Cloud), Overlay: l.ownLists().apply, Commitments: p.commitments.List,
		Registerer: l.registerer,
	})
	if err != nil {
		return err
	}
	return add(l.manager, recorder.Run)
}

// add makes the manager run loops of the launcher.
func add(mgr manager.Manager, loops ...func(context.Context) error) error {
	var errs []error
	for _, run := range loops {
		errs = append(errs, mgr.Add(manager.RunnableFunc(run)))
	}
	return errors.Join(errs...)
}

func (l *Launcher) classes(p parts) error {
	mgr, settings := l.manager, l.config.Settings
	// The bundle is part of the EC2NodeClass's hash, as in Karpenter: with a different one, all nodes that Karpenter launched would seem to
	// drift.
	bundle := settings.ClusterCABundle
	if bundle == "" {
		var err error
		if bundle, err = certificateAuthority(l.config.Kubernetes); err != nil {
			return err
		}
	}
	classes, err := nodeclass.New(nodeclass.Config{
		Client: mgr.GetClient(), Cloud: l.config.Cloud, Guard: p.leader, Events: l.recorders.karpenter, CABundle: &bundle,
		Shared: func() bool { return !p.beside.Alone() }, Ours: p.beside.ours,
	})
	if err != nil {
		return err
	}
	gates, err := ParseGates(settings.FeatureGates)
	if err != nil {
		return err
	}
	pools, err := nodepool.New(nodepool.Config{
		Client: mgr.GetClient(), Claims: l.cache.Claims, Offers: l.config.Cloud, Events: l.recorders.karpenter, Guard: p.leader, Leading: l.config.Gate.Open, Registerer: l.registerer,
		StaticCapacity: gates.StaticCapacity, Theirs: p.beside.theirs, Ours: p.beside.ours, Overlaid: l.own.of,
	})
	if err != nil {
		return err
	}
	shifts, err := zonalshift.New(zonalshift.Config{Client: mgr.GetClient(), Offers: l.config.Cloud, Guard: p.leader, Events: l.recorders.karpenter})
	if err != nil {
		return err
	}
	if settings.EnableZonalShift {
		err = add(mgr, shifts.Run)
	}
	return errors.Join(err, classes.SetupWithManager(mgr), pools.SetupWithManager(mgr))
}

func (l *Launcher) joining(p parts) error {
	mgr, settings := l.manager, l.config.Settings
	images, err := prefetch.New(prefetch.Config{
		Client: mgr.GetClient(), Pods: l.cache.Pods, Guard: p.leader, Ours: p.beside.ours, Disk: p.buffers.Disk, Registerer: l.registerer,
	})
	if err != nil {
		return err
	}
	controller, err := join.New(join.Config{
		Client: mgr.GetClient(), Pods: l.cache.Pods, Nodes: l.cache.Nodes, Reader: mgr.GetAPIReader(), Instances: l.config.Cloud, Launcher: p.launcher, Ender: p.terminator,
		Binder: p.binder, Images: images.Prepare, Health: p.health, Guard: p.leader, Events: l.recorders.slipway, KarpenterEvents: l.recorders.karpenter, Ours: p.beside.ours, Failed: p.late.failed, Registerer: l.registerer,
		Settings: join.Settings{
			BindAt: settings.BindAt, Patience: settings.patience(),
			IgnoreDRARequests: settings.IgnoreDRARequests,
		},
	})
	p.late.joins = controller
	if err != nil {
		return err
	}
	rejections, err := reject.New(reject.Config{
		Client: mgr.GetClient(), Guard: p.leader, Events: l.recorders.slipway, Health: p.health, Ours: p.beside.ours,
	})
	if err != nil {
		return err
	}
	shapes, err := consistency.New(consistency.Config{Client: mgr.GetClient(), Guard: p.leader, Events: l.recorders.karpenter, Ours: p.beside.ours})
	if err != nil {
		return err
	}
	return errors.Join(controller.SetupWithManager(mgr), images.SetupWithManager(mgr), l.standby(p), rejections.SetupWithManager(mgr), shapes.SetupWithManager(mgr))
}

func (l *Launcher) termination(p parts) error {
	mgr := l.manager
	var needed func(*karpv1.NodeClaim) string
	if p.gates.CapacityBuffer {
		needed = p.buffers.Needed
	}
	reclaimer, err := reclaim.New(reclaim.Config{
		Client: mgr.GetClient(), Pods: l.cache.Pods, Reader: mgr.GetAPIReader(), Guard: p.leader, Asker: p.server, Ender: p.terminator,
		Events: l.recorders.karpenter, Ledger: p.ledger, Metrics: p.voluntary, Ours: p.beside.ours, Needed: needed,
	})
	if err != nil {
		return err
	}
	interruptions, err := interrupt.New(interrupt.Config{
		Client: mgr.GetClient(), Launching: p.launcher.Busy, Queue: l.config.Cloud, Checker: l.config.Cloud, Guard: p.leader, Leading: l.config.Gate.Open,
		Ender: p.terminator, Events: l.recorders.karpenter, Registerer: l.registerer, Ours: p.beside.ours, Unjoined: p.late.unjoined,
	})
	if err != nil {
		return err
	}
	expiry, err := expire.New(expire.Config{Client: mgr.GetClient(), Guard: p.leader, Ender: p.terminator, Ours: p.beside.ours})
	if err != nil {
		return err
	}
	blocks, err := block.New(block.Config{
		Client: mgr.GetClient(), Blocks: l.config.Cloud, Guard: p.leader, Ender: p.terminator, Events: l.recorders.slipway, Ours: p.beside.ours,
	})
	if err != nil {
		return err
	}
	collector, err := collect.New(collect.Config{
		Reader: mgr.GetAPIReader(), Client: mgr.GetClient(), Cloud: l.config.Cloud, Guard: p.leader, Ender: p.terminator, Events: l.recorders.slipway, Price: p.launcher.Price,
		Ours: p.beside.ours, Alone: p.beside.Alone,
	})
	if err != nil {
		return err
	}
	drifts, err := drift.New(drift.Config{Client: mgr.GetClient(), Cloud: l.config.Cloud, Guard: p.leader, Ours: p.beside.ours})
	if err != nil {
		return err
	}
	sleeps, err := sleep.New(sleep.Config{
		Client: mgr.GetClient(), Guard: p.leader, Events: l.recorders.slipway, Ours: p.beside.ours, Registerer: l.registerer,
	})
	if err != nil {
		return err
	}
	return errors.Join(
		reclaimer.SetupWithManager(mgr), drifts.SetupWithManager(mgr), expiry.SetupWithManager(mgr), blocks.SetupWithManager(mgr),
		add(mgr, interruptions.Run, interruptions.RunChecks, collector.Run, sleeps.Run),
	)
}

// lateParts breaks dependency cycles: of the server with the parts that call it, of launching with joining, and of moves. It is complete before
// anything runs.
type lateParts struct {
	server    *server.Server
	joins     *join.Controller
	mover     *disrupt.Executor
	decisions *decisions.Recorder
}

func (s *lateParts) failed(claim *karpv1.NodeClaim, reason, message string) {
	s.decisions.Refused(claim, reason, message)
	s.server.Failed(claim, reason, message)
}

func (s *lateParts) bindings(ctx context.Context, claim *karpv1.NodeClaim) (written func()) {
	return s.joins.Prepare(ctx, claim)
}

func (s *lateParts) unjoined(ctx context.Context, claim *karpv1.NodeClaim) (bool, error) {
	return join.Unjoined(s.joins)(ctx, claim)
}

func (s *lateParts) recheck() { s.server.Recheck() }

func (s *lateParts) inMove(node string) bool { return s.mover.InMove(node) }

// MakeRoom implements terminate.Asker.
func (s *lateParts) MakeRoom(ctx context.Context, q *api.MakeRoom) (*api.MakeRoomAnswer, error) {
	return s.server.MakeRoom(ctx, q)
}

// Stream implements terminate.Asker.
func (s *lateParts) Stream() uint64 { return server.NewBufferAsker(s.server).Stream() }
