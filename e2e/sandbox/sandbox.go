package sandbox

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/slipway-k8s/slipway/e2e/aws"
	"github.com/slipway-k8s/slipway/e2e/controlplane"
	"github.com/slipway-k8s/slipway/e2e/foreign"
	"github.com/slipway-k8s/slipway/e2e/machines/instance"
	"github.com/slipway-k8s/slipway/e2e/machines/sim"
	"github.com/slipway-k8s/slipway/e2e/part"
	"github.com/slipway-k8s/slipway/e2e/sandbox/control"
	"github.com/slipway-k8s/slipway/e2e/sandbox/supervise"
	"github.com/slipway-k8s/slipway/e2e/tap"
	"github.com/slipway-k8s/slipway/internal/progress"
)

// Sandbox is a running sandbox. Its methods may be called concurrently.
type Sandbox struct {
	cfg    Config
	claim  *control.Claim
	cp     *controlplane.ControlPlane
	client kubernetes.Interface
	// aws is the sandbox's own AWS; nil where foreign is another one.
	aws      *aws.Server
	foreign  *foreign.AWS
	prepared foreign.Prepared
	// children by name.
	children map[string]*supervise.Child
	// metrics are the ports of the processes' metrics, by name.
	metrics map[string]int
	// probes are the ports of the launchers' probes, by name.
	probes map[string]int
	// apis are the ports of the launchers' API, by name.
	apis map[string]int
	// holds delay machines.
	holds instance.Holds
	// journal and taps, by name of the process, are set where they were requested.
	journal *tap.Journal
	taps    map[string][]*tap.Tap

	// stops are called in reverse order.
	stops    []func() error
	stopOnce sync.Once
	stopErr  error

	failed     chan struct{}
	failedOnce sync.Once
	failure    error
}

// Start starts a sandbox. It returns when the scheduler leads, the launcher listens and the managed nodes are Ready. ctx
// limits only the start; Stop ends the sandbox.
func Start(ctx context.Context, cfg Config) (*Sandbox, error) {
	if err := cfg.complete(); err != nil {
		return nil, fmt.Errorf("starting the sandbox: %w", err)
	}
	s := &Sandbox{
		cfg: cfg, children: map[string]*supervise.Child{}, metrics: map[string]int{}, probes: map[string]int{}, apis: map[string]int{},
		journal: tap.NewJournal(), taps: map[string][]*tap.Tap{}, failed: make(chan struct{}),
	}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the sandbox: %w", err), s.Stop())
	}
	return s, nil
}

// step is one step of the start. run returns a detail for Progress.
type step struct {
	name string
	run  func(context.Context) (detail string, err error)
}

func (s *Sandbox) start(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-s.failed:
			cancel(s.failure)
		case <-ctx.Done():
		}
	}()
	for _, step := range []step{
		{"folder", s.claimFolder},
		{"AWS", s.startAWS},
		{"control plane", s.startControlPlane},
		{"preparation", s.prepareForeign},
		{"machines", s.startMachines},
		{"launcher", s.startLaunchers},
		{"scheduler", s.startSchedulers},
		{"add-ons", s.startAddons},
		{"managed nodes", s.startManagedNodes},
		{"control socket", s.startControl},
	} {
		begin := time.Now()
		detail, err := progress.During(s.cfg.Progress, "starting the "+step.name, func() (string, error) { return step.run(ctx) })
		if err != nil {
			if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
				err = errors.Join(cause, err)
			}
			return fmt.Errorf("%s: %w", step.name, err)
		}
		if detail != "" {
			s.cfg.Progress(fmt.Sprintf("%-14s %5.1f s  %s", step.name, time.Since(begin).Seconds(), detail))
		}
	}
	return nil
}

func (s *Sandbox) claimFolder(context.Context) (string, error) {
	claim, err := control.Acquire(s.cfg.Name)
	if err != nil {
		return "", err
	}
	s.claim = claim
	s.stops = append(s.stops, claim.Release)
	return claim.Folder, nil
}

func (s *Sandbox) startControlPlane(ctx context.Context) (string, error) {
	grace := time.Duration(0)
	if s.cfg.Machines == Light {
		grace = sim.LightGrace
	}
	cp, err := controlplane.Start(ctx, controlplane.Config{
		NodeGrace: grace,
		Folder:    s.claim.Folder, LogFile: s.LogFile(ControlPlane), EmulatedVersion: s.cfg.EmulatedVersion,
		ServiceCIDR: serviceCIDRs()[s.cfg.IPFamily], AuditLog: s.cfg.AuditLog,
	})
	if err != nil {
		return "", err
	}
	s.cp = cp
	s.stops = append(s.stops, cp.Stop)
	s.run(ctx, "control plane watch", func(ctx context.Context) error {
		select {
		case <-cp.Failed():
			return cp.Err()
		case <-ctx.Done():
			return nil
		}
	})
	if s.aws != nil {
		s.aws.SetCluster(cp.Endpoint(), cp.CertificateAuthority())
	}
	if s.client, err = kubernetes.NewForConfig(cp.Admin()); err != nil {
		return "", err
	}
	version, err := s.client.Discovery().ServerVersion()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("etcd, kube-apiserver %s.%s at %s, kube-controller-manager, Karpenter's CRDs",
		version.Major, version.Minor, cp.Endpoint()), nil
}

// run starts a part that Stop ends in reverse order.
func (s *Sandbox) run(ctx context.Context, name string, run func(context.Context) error) {
	s.stops = append(s.stops, part.Start(ctx, name, run, s.fail).Stop)
}

func (s *Sandbox) fail(err error) {
	s.failedOnce.Do(func() {
		s.failure = err
		close(s.failed)
	})
}

// Failed returns a channel that is closed when a part ends by itself. Err then returns why. The two processes do not count,
// since they are restarted.
func (s *Sandbox) Failed() <-chan struct{} { return s.failed }

// Err returns why the sandbox failed; nil before Failed is closed.
func (s *Sandbox) Err() error {
	select {
	case <-s.failed:
		return s.failure
	default:
		return nil
	}
}

// Stop ends all parts and removes the folder. It may be called more than once.
func (s *Sandbox) Stop() error {
	s.stopOnce.Do(func() {
		var errs []error
		for _, stop := range slices.Backward(s.stops) {
			errs = append(errs, stop())
		}
		s.stopErr = errors.Join(errs...)
	})
	return s.stopErr
}

// Name returns the sandbox's name.
func (s *Sandbox) Name() string { return s.claim.Name }

// Folder returns the folder of all its files.
func (s *Sandbox) Folder() string { return s.claim.Folder }

// RESTConfig returns client settings of an administrator, without client-side rate limits. The caller may change them.
func (s *Sandbox) RESTConfig() *rest.Config { return s.cp.Admin() }

// Client returns an administrator's client.
func (s *Sandbox) Client() kubernetes.Interface { return s.client }

// KubeconfigPath returns the path of the administrator's kubeconfig.
func (s *Sandbox) KubeconfigPath() string {
	if s.cfg.KubeconfigPath != "" {
		return s.cfg.KubeconfigPath
	}
	return s.path("kubeconfig")
}

// path returns the path of a file of the sandbox.
func (s *Sandbox) path(name string) string { return filepath.Join(s.claim.Folder, name) }
