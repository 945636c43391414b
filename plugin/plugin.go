package plugin

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/slipway-k8s/slipway/plugin/hooks"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/link"
	"github.com/slipway-k8s/slipway/plugin/podstatus"
	"github.com/slipway-k8s/slipway/plugin/promise"
	"github.com/slipway-k8s/slipway/plugin/reservations"
	"github.com/slipway-k8s/slipway/plugin/verify"
)

// Options of a Plugin.
type Options struct {
	// Registerer of the plugin's metrics. Required.
	Registerer prometheus.Registerer
	// Fault is called at each entry point with its name and the pod, nil where there is none; nil for nothing. Tests
	// make it panic.
	Fault func(point string, pod *corev1.Pod)
}

// Plugin is what stands behind NodeLaunch and NodeReserve in all profiles of one scheduler. Its life: New, then the
// two factories while the Scheduler is built, Install, and Run.
type Plugin struct {
	options    Options
	metrics    *metrics
	collected  *intake.Collector
	promises   *promise.Table
	inbox      *inbox
	connection connection

	mu sync.Mutex
	// args of the first profile; the others' are equal.
	args    *Args
	handles map[string]fwk.Handle
	reserve []*nodeReserve

	// Set by Install, before anything runs.
	sched    *scheduler.Scheduler
	client   clientset.Interface
	informer informers.SharedInformerFactory
	recorder events.EventRecorderLogger
	lease    *corev1.ObjectReference
	link     *link.Link
	planner  *planner
	status   *podstatus.Writer
	owners   *intake.Owners
	needs    *needs
	busy     *busyView
	begins   *beginning
	delays   *delays
	// nodesSynced and podsSynced say whether the informers have their first lists.
	nodesSynced, podsSynced cache.InformerSynced
	installed               atomic.Bool
	// reserved is the room for the pods of nodes that terminate. Board and Left alone are for other goroutines than the planner's.
	reserved *reservations.Table
	// foreign says that a pod of an adopted scheduler has changed.
	foreign atomic.Bool
}

// Scheduler is what Install needs of the scheduler that the plugins were built into.
type Scheduler struct {
	// Scheduler as built, not running yet. Required.
	Scheduler *scheduler.Scheduler
	// Profiles it was built with. Required.
	Profiles []config.KubeSchedulerProfile
	// Informers it was built with, not started yet. Required.
	Informers informers.SharedInformerFactory
	// Client it was built with. Required.
	Client clientset.Interface
	// Recorder of events, in slipway's name. Required.
	Recorder events.EventRecorderLogger
	// OutOfTree are the plugins that it was built with besides slipway's; nil for none.
	OutOfTree frameworkruntime.Registry
	// Identity of the leader election, exactly as its lock gives it; empty where there is none.
	Identity string
	// LeaseNamespace and LeaseName of the leader election.
	LeaseNamespace, LeaseName string
}

// New returns a Plugin whose factories can be registered.
func New(o Options) (*Plugin, error) {
	m, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, err
	}
	collected := intake.NewCollector()
	p := &Plugin{
		options: o, metrics: m, collected: collected, inbox: newInbox(collected.Notify), handles: map[string]fwk.Handle{},
		begins: newBeginning(), delays: newDelays(m),
	}
	p.promises, err = promise.New(p.activate)
	return p, err
}

// NodeLaunch is the plugin factory of NodeLaunch.
func (p *Plugin) NodeLaunch(_ context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	args, err := DecodeArgs(obj)
	if err != nil {
		return nil, fmt.Errorf("profile %s: %w", profileName(h), err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.args != nil && !reflect.DeepEqual(p.args, args) {
		return nil, fmt.Errorf("profile %s: %s: args differ from those of another profile, which shares the launcher with it", profileName(h), NodeLaunchName)
	}
	p.args = args
	p.handles[profileName(h)] = h
	return &nodeLaunch{Plugin: p, handle: h}, nil
}

// NodeReserve is the plugin factory of NodeReserve. It takes no arguments.
func (p *Plugin) NodeReserve(_ context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	if obj != nil {
		return nil, fmt.Errorf("profile %s: %s takes no args", profileName(h), NodeReserveName)
	}
	r := newNodeReserve(p, h)
	p.mu.Lock()
	p.reserve = append(p.reserve, r)
	p.mu.Unlock()
	return r, nil
}

// profileName is part of a framework, which every handle is, though not of the handle's interface before 1.36.
func profileName(h fwk.Handle) string { return h.ProfileName() }

// Install connects the plugin with the scheduler that its factories built plugins for: informers, the verifying
// frameworks, the hooks. It starts nothing.
func (p *Plugin) Install(ctx context.Context, s Scheduler) error {
	if s.Scheduler == nil || len(s.Profiles) == 0 || s.Informers == nil || s.Client == nil || s.Recorder == nil {
		return errors.New("plugin: Scheduler, Profiles, Informers, Client and Recorder are required")
	}
	if p.args == nil {
		return fmt.Errorf("no profile enables the plugin %s", NodeLaunchName)
	}
	for _, name := range p.args.Adopt {
		if slices.ContainsFunc(s.Profiles, func(profile config.KubeSchedulerProfile) bool { return profile.SchedulerName == name }) {
			return fmt.Errorf("%s: args.adopt: %s is a profile of this scheduler: name another's", NodeLaunchName, name)
		}
	}
	p.sched, p.client, p.informer, p.recorder = s.Scheduler, s.Client, s.Informers, s.Recorder
	p.lease = &corev1.ObjectReference{Kind: "Lease", APIVersion: "coordination.k8s.io/v1", Namespace: s.LeaseNamespace, Name: s.LeaseName}
	l, err := link.New(link.Config{
		Socket: p.args.Socket, Identity: s.Identity, LeaseNamespace: s.LeaseNamespace, LeaseName: s.LeaseName,
		OnCatalog: p.inbox.update, OnQuestion: p.inbox.question, OnConnected: p.setConnected,
	})
	if err != nil {
		return err
	}
	p.link = l
	handle := p.anyHandle()
	verifying := verify.Config{
		Profiles: s.Profiles, Without: []string{NodeLaunchName, NodeReserveName}, OutOfTree: s.OutOfTree,
		Informers: s.Informers, Client: s.Client, DRA: handle.SharedDRAManager(), CSI: handle.SharedCSIManager(),
	}
	provisioner, err := newProvisioner(ctx, p.args, verifying)
	if err != nil {
		return err
	}
	beside, err := newProvisioner(ctx, p.args, verifying)
	if err != nil {
		return err
	}
	if p.owners, err = intake.NewOwners(s.Informers); err != nil {
		return err
	}
	p.reserved = reservations.New(reservations.Config{
		Pod: p.pod, Terminates: p.terminates, Namespaces: s.Informers.Core().V1().Namespaces().Lister(),
	})
	p.needs = newNeeds(s.Profiles, s.Informers)
	p.status = podstatus.New(podstatus.Config{
		Client: s.Client, Pods: s.Informers.Core().V1().Pods().Lister(), Recorder: s.Recorder, Adopts: p.adopts,
	})
	if p.planner, err = newPlanner(p, provisioner); err != nil {
		return err
	}
	p.planner.consolidator = newConsolidator(p, beside)
	p.busy = newBusyView(p)
	p.nodesSynced = s.Informers.Core().V1().Nodes().Informer().HasSynced
	p.podsSynced = s.Informers.Core().V1().Pods().Informer().HasSynced
	if err := p.watch(); err != nil {
		return err
	}
	p.installed.Store(true)
	if !*p.args.Hooks {
		return nil
	}
	return hooks.Install(hooks.Config{Scheduler: s.Scheduler, Plugin: &hookSide{p}, Rejector: NodeLaunchName, Waker: NodeReserveName})
}

// IdentityPath is a file beside the launcher's socket for what the next scheduler there is to know of this one; empty before
// a profile with NodeLaunch was built.
func (p *Plugin) IdentityPath() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.args == nil {
		return ""
	}
	return p.args.Socket + ".identity"
}

func (p *Plugin) anyHandle() fwk.Handle {
	names := make([]string, 0, len(p.handles))
	for name := range p.handles {
		names = append(names, name)
	}
	slices.Sort(names)
	return p.handles[names[0]]
}

// Resign asks the launcher to stop acting and waits for its answer, as long as the context lasts.
func (p *Plugin) Resign(ctx context.Context) error {
	if p.link == nil {
		return nil
	}
	return p.link.Resign(ctx)
}

// serves says whether the profile has NodeLaunch.
func (p *Plugin) serves(profile string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, ok := p.handles[profile]
	return ok
}
