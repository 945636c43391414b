package plugin

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/profile"

	"github.com/slipway-k8s/slipway/internal/intern"
	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/hooks"
	"github.com/slipway-k8s/slipway/plugin/incremental"
	"github.com/slipway-k8s/slipway/plugin/intake"
	"github.com/slipway-k8s/slipway/plugin/promise"
	"github.com/slipway-k8s/slipway/plugin/reservations"
)

// Plugin is what stands behind NodeLaunch and NodeReserve in all profiles of one scheduler. Its life: New, then the
// two factories while the Scheduler is built, Install, and Run.
type Plugin struct {
	shared

	mu sync.Mutex
	// args of the first profile; the others' are equal.
	args    *Args
	served  []string
	handle  fwk.Handle
	reserve []*nodeReserve
	// observed is made by the first factory that needs it, or by Install.
	observed *observed

	// core is made by Install, before anything runs.
	core  atomic.Pointer[core]
	trips *trips
}

// New returns a Plugin whose factories can be registered.
func New(o Options) (*Plugin, error) {
	m, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, err
	}
	collected := intake.NewCollector()
	p := &Plugin{shared: shared{
		guard: &guard{metrics: m, fault: o.Fault}, metrics: m, collected: collected, inbox: newInbox(collected.Notify),
		connection: &connection{metrics: m, changed: collected.Notify, since: time.Now()}, begins: newBeginning(), delays: newDelays(m),
	}, trips: &trips{metrics: m}}
	p.promises, err = promise.New(p.activate)
	return p, err
}

// activate puts pods back into the scheduling queue. Before Install there are none.
func (p *Plugin) activate(refs []catalog.PodRef) {
	if c := p.core.Load(); c != nil {
		c.queue.activate(refs)
	}
}

// NodeLaunch is the plugin factory of NodeLaunch.
func (p *Plugin) NodeLaunch(_ context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	args, err := DecodeArgs(obj)
	if err != nil {
		return nil, fmt.Errorf("profile %s: %w", h.ProfileName(), err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.args != nil && !reflect.DeepEqual(p.args, args) {
		return nil, fmt.Errorf("profile %s: %s: args differ from those of another profile, which shares the launcher with it", h.ProfileName(), NodeLaunchName)
	}
	if err := p.observe(h.SharedInformerFactory()); err != nil {
		return nil, fmt.Errorf("profile %s: %w", h.ProfileName(), err)
	}
	p.args = args
	p.served = append(p.served, h.ProfileName())
	p.handle = h
	return &nodeLaunch{nodeLaunchConfig{
		guard: p.guard, args: args, handle: h, collected: p.collected, promises: p.promises, delays: p.delays, connection: p.connection,
		sleep:  p.observed.sleep,
		hooked: func() bool { return *args.Hooks && p.core.Load() != nil },
		gathered: func(gang string) (placed int, others []*corev1.Pod) {
			if c := p.core.Load(); c != nil {
				return c.queue.gathered(gang)
			}
			return 0, nil
		},
		nominate: func(ctx context.Context, pod catalog.PodRef, nodeName string) {
			if c := p.core.Load(); c != nil {
				c.queue.nominate(ctx, pod, nodeName)
			}
		},
		unseen: func() bool {
			c := p.core.Load()
			return !*args.Hooks && c != nil && c.queue.objects.noNodes()
		},
	}}, nil
}

// NodeReserve is the plugin factory of NodeReserve. It takes no arguments.
func (p *Plugin) NodeReserve(_ context.Context, obj runtime.Object, h fwk.Handle) (fwk.Plugin, error) {
	if obj != nil {
		return nil, fmt.Errorf("profile %s: %s takes no args", h.ProfileName(), NodeReserveName)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.observe(h.SharedInformerFactory()); err != nil {
		return nil, fmt.Errorf("profile %s: %w", h.ProfileName(), err)
	}
	r := newNodeReserve(p.guard, *p.observed, p.promises)
	p.reserve = append(p.reserve, r)
	return r, nil
}

// Registry returns all plugin factories by name: NodeLaunch, NodeReserve, and those of Kubernetes' plugins that have a memory here.
func (p *Plugin) Registry() frameworkruntime.Registry {
	all := incremental.Plugins(p.trips.Tripped)
	all[NodeLaunchName], all[NodeReserveName] = p.NodeLaunch, p.NodeReserve
	return all
}

// assumedOn returns the node that the scheduler has chosen for a pod and the API server does not show yet; empty for none.
func (p *Plugin) assumedOn(pod *corev1.Pod) string {
	if c := p.core.Load(); c != nil {
		return c.queue.assumedOn(pod)
	}
	return ""
}

// observe makes what is seen of the cluster, once. The informers do not run yet. The caller holds the lock.
func (p *Plugin) observe(f informers.SharedInformerFactory) error {
	if p.observed != nil {
		return nil
	}
	// Of Jobs, only slipway has an informer: kube-scheduler's plugins read none.
	share := intern.New().WithoutTemplates
	for _, informer := range []cache.SharedIndexInformer{f.Core().V1().Pods().Informer(), f.Core().V1().Nodes().Informer(), f.Batch().V1().Jobs().Informer()} {
		if err := informer.SetTransform(share); err != nil {
			return err
		}
	}
	o, err := newObjects(f)
	if err != nil {
		return err
	}
	p.observed = &observed{
		objects: o, shares: newOnDemandShares(o, p.promises, p.assumedOn), sleep: newSleepers(o.namespaces),
		reserved: reservations.New(reservations.Config{Pod: o.pod, Terminates: o.terminates, Namespaces: o.namespaces, OncePod: o.oncePod}),
	}
	return nil
}

// Install connects the plugin with the scheduler that its factories built plugins for: informers, the verifying
// frameworks, the hooks. It starts nothing.
func (p *Plugin) Install(ctx context.Context, s Scheduler) error {
	if s.Scheduler == nil || len(s.Profiles) == 0 || s.Informers == nil || s.Client == nil || s.Recorder == nil {
		return errors.New("plugin: Scheduler, Profiles, Informers, Client and Recorder are required")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.args == nil {
		return fmt.Errorf("no profile enables the plugin %s", NodeLaunchName)
	}
	for _, name := range p.args.Adopt {
		if slices.ContainsFunc(s.Profiles, func(profile config.KubeSchedulerProfile) bool { return profile.SchedulerName == name }) {
			return fmt.Errorf("%s: args.adopt: %s is a profile of this scheduler: name another's", NodeLaunchName, name)
		}
	}
	if err := incremental.Validate(s.Profiles); err != nil {
		return err
	}
	if err := p.launchesFirst(s.Scheduler.Profiles); err != nil {
		return err
	}
	if err := p.observe(s.Informers); err != nil {
		return err
	}
	c, err := newCore(ctx, coreConfig{
		shared: p.shared, observed: *p.observed, scheduler: s, args: p.args, served: slices.Clone(p.served), handle: p.handle, reserve: p.reserve,
	})
	if err != nil {
		return err
	}
	p.core.Store(c)
	p.trips.events.Store(&tripEvents{recorder: s.Recorder, lease: &corev1.ObjectReference{
		Kind: "Lease", APIVersion: "coordination.k8s.io/v1", Namespace: s.LeaseNamespace, Name: s.LeaseName,
	}})
	if !*p.args.Hooks {
		return nil
	}
	return hooks.Install(hooks.Config{
		Scheduler: s.Scheduler, Pods: s.Informers.Core().V1().Pods().Lister(), Rejector: NodeLaunchName, Waker: NodeReserveName,
		Hints: hintedProfiles(s),
		Plugin: &hookSide{
			guard: p.guard, begins: p.begins, collected: p.collected, promises: p.promises, objects: c.queue.objects, sleep: p.observed.sleep,
			reserved: p.observed.reserved, profiles: c.queue.profiles, devices: c.queue.devices, trips: p.trips,
		},
	})
}

// launchesFirst returns an error where preferLaunch would have no effect, because a profile preempts before it launches.
func (p *Plugin) launchesFirst(built profile.Map) error {
	if p.args.PreferLaunch == nil {
		return nil
	}
	for _, name := range p.served {
		for _, pl := range built[name].ListPlugins().PostFilter.Enabled {
			if pl.Name == NodeLaunchName {
				break
			}
			if pl.Name == names.DefaultPreemption {
				return fmt.Errorf("checking profile %s: %s args.preferLaunch: plugins.postFilter has %s before %s, want it after",
					name, NodeLaunchName, names.DefaultPreemption, NodeLaunchName)
			}
		}
	}
	return nil
}

// Run works until the context ends. Call it once, after Install and before or while the scheduler runs.
func (p *Plugin) Run(ctx context.Context) {
	logger := klog.FromContext(ctx).WithName("slipway")
	p.core.Load().run(klog.NewContext(ctx, logger))
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

// AwaitLauncher waits until the launcher's catalog is received. It returns false if the context ends before.
func (p *Plugin) AwaitLauncher(ctx context.Context) bool { return p.connection.await(ctx) }

// Resign asks the launcher to stop acting and waits for its answer, as long as the context lasts.
func (p *Plugin) Resign(ctx context.Context) error {
	c := p.core.Load()
	if c == nil {
		return nil
	}
	return c.link.Resign(ctx)
}
