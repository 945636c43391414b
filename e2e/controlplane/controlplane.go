package controlplane

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/client-go/rest"

	"github.com/slipway-k8s/slipway/e2e/part"
)

// Config configures a control plane. The zero value is valid.
type Config struct {
	// Folder is the parent of the temporary folder; empty means os.TempDir().
	Folder string
	// LogFile receives the logs of all three servers; empty means controlplane.log in the temporary folder.
	LogFile string
	// ServiceCIDR is the range of cluster IPs, and with it the cluster's IP family; empty means 10.100.0.0/16.
	ServiceCIDR string
	// AuditLog is the path of the file to which kube-apiserver writes each request, without bodies, and without the Leases of kubelets; empty
	// means no such file.
	AuditLog string
	// EmulatedVersion is the version that kube-apiserver and kube-controller-manager emulate, for example "1.34"; empty
	// means the version from which they were built.
	EmulatedVersion string
	// NodeGrace is kube-controller-manager's --node-monitor-grace-period, in whole seconds; 0 means its default.
	NodeGrace time.Duration
	// Progress is called after each step of Start with the step and its duration; nil means no call.
	Progress func(step string, took time.Duration)
}

// serviceNetwork is the usual range of cluster IPs.
const serviceNetwork = "10.100.0.0/16"

// serviceCIDR returns the range of cluster IPs.
func (c Config) serviceCIDR() string { return cmp.Or(c.ServiceCIDR, serviceNetwork) }

// ControlPlane is a running control plane.
type ControlPlane struct {
	folder    string
	authority *authority
	address   string
	admin     *rest.Config
	logs      *logs

	tokens      *tokens
	etcd        *store
	api         *part.Part
	controllers *part.Part

	failed     chan struct{}
	failedOnce sync.Once
	failure    error
	stopOnce   sync.Once
	stopErr    error
}

// Start starts a control plane. It returns when the API server is ready, Karpenter's CRDs are established, slipway's RBAC
// rules are applied, and the default namespace has its service account, so that pods can be created. ctx limits only the
// start; Stop ends the control plane.
func Start(ctx context.Context, cfg Config) (*ControlPlane, error) {
	folder, err := os.MkdirTemp(cfg.Folder, "slipway-cp-")
	if err != nil {
		return nil, fmt.Errorf("starting the control plane: %w", err)
	}
	cp := &ControlPlane{folder: folder, failed: make(chan struct{})}
	if err := cp.start(ctx, cfg); err != nil {
		if cp.failure != nil {
			err = errors.Join(err, cp.failure)
		}
		return nil, errors.Join(fmt.Errorf("starting the control plane: %w", err), cp.Stop())
	}
	return cp, nil
}

func (cp *ControlPlane) start(ctx context.Context, cfg Config) error {
	steps := []struct {
		name string
		run  func(context.Context, Config) error
	}{
		{"keys and certificates", cp.startFiles},
		{"tokens", cp.startTokens},
		{"etcd", cp.startEtcd},
		{"kube-apiserver", cp.startAPI},
		{"kube-controller-manager", cp.startControllers},
		{"CRDs and RBAC", cp.apply},
		{"default service account", cp.awaitServiceAccount},
	}
	for _, step := range steps {
		begin := time.Now()
		if err := step.run(ctx, cfg); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
		if cfg.Progress != nil {
			cfg.Progress(step.name, time.Since(begin))
		}
	}
	return nil
}

func (cp *ControlPlane) startFiles(_ context.Context, cfg Config) error {
	logFile := cfg.LogFile
	if logFile == "" {
		logFile = filepath.Join(cp.folder, "controlplane.log")
	}
	var err error
	if cp.logs, err = redirectLogs(logFile); err != nil {
		return err
	}
	cp.authority, err = newAuthority(cp.folder, cfg.serviceCIDR())
	return err
}

func (cp *ControlPlane) startEtcd(ctx context.Context, _ Config) error {
	var err error
	cp.etcd, err = startStore(ctx, cp.folder, cp.logs.path)
	return err
}

// Stop ends the servers, the controller manager first, and removes the temporary folder. It may be called more than once.
func (cp *ControlPlane) Stop() error {
	cp.stopOnce.Do(func() {
		var errs []error
		if cp.controllers != nil {
			errs = append(errs, cp.controllers.Stop())
			forgetControllers()
		}
		if cp.api != nil {
			errs = append(errs, cp.api.Stop())
		}
		if cp.etcd != nil {
			cp.etcd.stop()
		}
		if cp.tokens != nil {
			errs = append(errs, cp.tokens.running.Stop())
		}
		if cp.logs != nil {
			errs = append(errs, cp.logs.end())
		}
		errs = append(errs, os.RemoveAll(cp.folder))
		cp.stopErr = errors.Join(errs...)
	})
	return cp.stopErr
}

// Failed returns a channel that is closed when a server ends without Stop. Err then returns why.
func (cp *ControlPlane) Failed() <-chan struct{} { return cp.failed }

// Err returns why the control plane failed; nil before Failed is closed.
func (cp *ControlPlane) Err() error {
	select {
	case <-cp.failed:
		return cp.failure
	default:
		return nil
	}
}

// Folder returns the temporary folder.
func (cp *ControlPlane) Folder() string { return cp.folder }

// LogFile returns the path of the servers' log.
func (cp *ControlPlane) LogFile() string { return cp.logs.path }

// fail records the first failure of a server.
func (cp *ControlPlane) fail(err error) {
	cp.failedOnce.Do(func() {
		cp.failure = err
		close(cp.failed)
	})
}
