// Package machines runs a machine for each running instance of the AWS on the wire, as long as the instance runs. A Mode
// decides what a machine is: package sim simulates kubelets.
//
// One goroutine (Run) owns the set of machines. Each machine has its own, and the mode has one. All end with Run's context.
package machines

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/slipway-k8s/slipway/e2e/machines/delay"
	"github.com/slipway-k8s/slipway/e2e/machines/instance"
	"github.com/slipway-k8s/slipway/e2e/machines/sim"
)

// Mode is a way to run machines. Its methods may be called concurrently.
type Mode interface {
	// Run does the shared work of the machines until ctx ends.
	Run(ctx context.Context) error
	// Machine runs one machine until ctx ends, which means that its instance has stopped. A mode whose Run does the work of
	// machines may return at once. An error is why the machine does not join. The instance then runs without a kubelet.
	Machine(ctx context.Context, m instance.Instance) error
	// Discard removes what is left of a machine that has ended: its instance is gone, disks included. Machine is not called again for it.
	Discard(m instance.Instance)
}

// Instances is the source of the instances.
type Instances interface {
	// Watch sends each existing instance and then each changed one, until ctx ends. It then closes the channel.
	Watch(ctx context.Context) <-chan instance.Instance
}

// Config holds the dependencies of machines.
type Config struct {
	// Admin reads the cluster for all machines. Without NodeConfig it also impersonates their kubelets.
	Admin *rest.Config
	// NodeConfig returns the configuration with the identity system:node:NAME. Nil means impersonation by Admin: the
	// authorizer and admission treat it the same, and thousands of machines need no certificates. Light machines ignore it.
	NodeConfig func(nodeName string) *rest.Config
	// Instances are AWS's.
	Instances Instances
	// Cluster is the cluster's name, and Endpoint the API server's URL, that user data must contain; empty means any.
	Cluster, Endpoint string
	// Times are the delays of simulated machines; the zero value means delay.EC2.
	Times delay.Times
	// Seed makes the simulated delays repeatable.
	Seed uint64
	// Speed divides the simulated delays; 0 means 1.
	Speed float64
	// Writers is the largest number of concurrent requests of all simulated machines; 0 means 16, or 64 of light machines.
	Writers int
	// Holds delay simulated machines; nil holds none.
	Holds *instance.Holds
	// Light makes simulated machines share goroutines and connections, and report less, so that thousands fit on a laptop.
	Light bool
}

// Machines runs a machine for each running instance.
type Machines struct {
	mode      Mode
	instances Instances
}

// New returns simulated machines; nothing starts before Run.
func New(cfg Config) (*Machines, error) {
	mode, err := Simulated(cfg)
	if err != nil {
		return nil, err
	}
	if cfg.Instances == nil {
		return nil, errors.New("machines: Instances are required")
	}
	return WithMode(mode, cfg.Instances), nil
}

// Simulated returns the mode of simulated machines. It ignores Instances of cfg.
func Simulated(cfg Config) (Mode, error) {
	if cfg.Admin == nil {
		return nil, errors.New("machines: Admin is required")
	}
	client, err := kubernetes.NewForConfig(unlimited(protobuf(cfg.Admin)))
	if err != nil {
		return nil, fmt.Errorf("making the client of simulated machines: %w", err)
	}
	nodeConfig := cfg.NodeConfig
	if nodeConfig == nil {
		nodeConfig = func(name string) *rest.Config { return impersonating(cfg.Admin, name) }
	}
	nodeClient := func(name string) (kubernetes.Interface, error) {
		return kubernetes.NewForConfig(kubeletLimits(protobuf(nodeConfig(name)), cfg.Speed))
	}
	if cfg.Light {
		if nodeClient, err = sharedClients(unlimited(protobuf(cfg.Admin))); err != nil {
			return nil, fmt.Errorf("making the connection of light machines: %w", err)
		}
	}
	mode, err := sim.New(sim.Config{
		Client: client, NodeClient: nodeClient, Light: cfg.Light,
		Cluster: cfg.Cluster, Endpoint: cfg.Endpoint,
		Times: cfg.Times, Seed: cfg.Seed, Speed: cfg.Speed, Writers: cfg.Writers, Holds: cfg.Holds,
	})
	if err != nil {
		return nil, fmt.Errorf("making simulated machines: %w", err)
	}
	return mode, nil
}

// WithMode returns machines of another mode.
func WithMode(mode Mode, instances Instances) *Machines {
	return &Machines{mode: mode, instances: instances}
}

// impersonating returns a configuration by which the admin acts as the kubelet of the node.
func impersonating(admin *rest.Config, node string) *rest.Config {
	c := rest.CopyConfig(admin)
	c.Impersonate = rest.ImpersonationConfig{UserName: "system:node:" + node, Groups: []string{"system:nodes", "system:authenticated"}}
	return c
}

func protobuf(c *rest.Config) *rest.Config {
	c = rest.CopyConfig(c)
	c.ContentType = "application/vnd.kubernetes.protobuf"
	c.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	c.UserAgent = "kubelet/v1.36.3 (linux; simulated)"
	return c
}

func unlimited(c *rest.Config) *rest.Config {
	c.QPS, c.Burst, c.RateLimiter = -1, 0, nil
	return c
}

// kubeletLimits sets a kubelet's client-side rate limits, in the machine's time.
func kubeletLimits(c *rest.Config, speed float64) *rest.Config {
	speed = max(speed, 1)
	c.QPS, c.Burst, c.RateLimiter = float32(50*speed), int(100*speed), nil
	return c
}

// Run runs a machine for each running instance until ctx ends. It returns when the last machine has stopped.
func (m *Machines) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	defer wg.Wait()
	var failed error
	var once sync.Once
	wg.Go(func() {
		if err := m.mode.Run(ctx); err != nil && ctx.Err() == nil {
			once.Do(func() { failed = err })
			cancel(err)
		}
	})
	known := map[string]*machine{}
	for i := range m.instances.Watch(ctx) {
		m.apply(ctx, &wg, known, i)
	}
	cancel(nil)
	wg.Wait()
	for _, left := range known {
		m.mode.Discard(left.instance)
	}
	return failed
}

// machine is the machine of an instance that has run, and is not gone.
type machine struct {
	instance instance.Instance
	// off switches it off; nil while it is.
	off context.CancelFunc
	// ended is closed when it has ended, after it was switched off last.
	ended chan struct{}
}

// apply starts the machine of an instance that runs, stops that of an instance that does not, and discards that of one that is gone.
func (m *Machines) apply(ctx context.Context, wg *sync.WaitGroup, known map[string]*machine, i instance.Instance) {
	log := klog.FromContext(ctx)
	of := known[i.ID]
	if on := of != nil && of.off != nil; on && i.State >= instance.Off {
		log.V(2).Info("The machine is switched off", "instanceID", i.ID)
		of.off()
		of.off = nil
	} else if !on && i.State == instance.Running {
		known[i.ID] = m.start(ctx, wg, of, i)
	}
	if of != nil && i.State == instance.Gone {
		delete(known, i.ID)
		wg.Go(func() {
			<-of.ended
			m.mode.Discard(i)
		})
	}
}

// start starts a machine, once it has ended that was switched off before; nil for the first start.
func (m *Machines) start(ctx context.Context, wg *sync.WaitGroup, before *machine, i instance.Instance) *machine {
	log := klog.FromContext(ctx)
	on, off := context.WithCancel(ctx)
	of := &machine{instance: i, off: off, ended: make(chan struct{})}
	wg.Go(func() {
		defer close(of.ended)
		if before != nil {
			<-before.ended
		}
		if i.FailJoin {
			log.Info("Machine does not join, by FailJoin", "instanceID", i.ID)
			return
		}
		if err := m.mode.Machine(on, i); err != nil && on.Err() == nil {
			log.Info("The machine does not join", "instanceID", i.ID, "err", err)
		}
	})
	return of
}
