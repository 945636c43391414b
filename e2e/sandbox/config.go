package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// The names of the processes, for Kill, LogFile and Tail.
const (
	// Scheduler is slipway-scheduler.
	Scheduler = "scheduler"
	// Launcher is slipway-launcher.
	Launcher = "launcher"
	// ControlPlane is etcd, kube-apiserver, kube-controller-manager and all else that runs in the sandbox's own process.
	ControlPlane = "controlplane"
)

// kubeletBackoff is what a kubelet waits before the second restart of a container.
const kubeletBackoff = 10 * time.Second

// ClusterName is the name of the sandbox's cluster: what its subnets, security groups and roles carry.
const ClusterName = "slipway"

// The kinds of machines behind instances.
const (
	// Simulated are kubelets that run nothing; thousands fit on a laptop.
	Simulated = "sim"
	// RealKubelets are a kubelet and a containerd for each instance, on Linux as root.
	RealKubelets = "kubelet"
)

// Config of a sandbox. Only BinDir is required.
type Config struct {
	// BinDir holds slipway-scheduler and slipway-launcher.
	BinDir string
	// Name tells sandboxes apart; empty means the first free one of sandbox, sandbox-2, and so on.
	Name string
	// Speed divides the delays of AWS and of machines; 0 means 1.
	Speed float64
	// AWSListen is the address that AWS listens on; empty means a free port on loopback.
	AWSListen string
	// AWSEndpoint is the URL of another AWS to stand on, such as LocalStack or moto; empty means the sandbox's own.
	AWSEndpoint string
	// KubeconfigPath is where the administrator's kubeconfig is written, which must not exist; empty means in the
	// sandbox's folder.
	KubeconfigPath string
	// Machines is the kind of machines: Simulated, which is also what empty means, or RealKubelets.
	Machines string
	// Kubelets is for RealKubelets alone.
	Kubelets Kubelets
	// ManagedNodes is how many nodes of an EKS managed node group there are from the start.
	ManagedNodes int
	// Addons are what EKS runs in every cluster: DaemonSets aws-node and kube-proxy, Deployment coredns.
	Addons bool
	// SpotInterruptionsPerHour is how often AWS takes a random spot instance away, in its own time.
	SpotInterruptionsPerHour float64
	// SpotNotice is how long before its end a spot instance is warned, in real time; 0 means two minutes divided by Speed.
	SpotNotice time.Duration
	// Seed makes prices, ids and delays repeatable.
	Seed uint64
	// EmulatedVersion is what the control plane pretends to be, for example 1.35; empty means what it was built from.
	EmulatedVersion string
	// PluginArgs are more arguments of NodeLaunch in the scheduler's configuration.
	PluginArgs map[string]any
	// StockProfile is the schedulerName of one more profile of the scheduler, with Kubernetes' own plugins and none of
	// slipway's, to compare with; empty means none.
	StockProfile string
	// SchedulerArgs and LauncherArgs are more command line arguments of the two processes.
	SchedulerArgs, LauncherArgs []string
	// Replicas is how many pairs of scheduler and launcher there are, one of which leads; 0 means 1.
	Replicas int
	// Taps put a proxy between the two processes and the servers that they call, for Journal and Taps.
	Taps bool
	// RestartBackoff before the second restart in a row of one of the two processes; 0 means a kubelet's, divided by Speed.
	RestartBackoff time.Duration
	// Progress is told, while starting, what was started and how long it took; nil means nobody listens.
	Progress func(text string)
	// Notice is told, after the start, what happened by itself, such as a process that ended and was restarted. It is
	// called from goroutines of the sandbox; nil means nobody listens.
	Notice func(text string)
}

// complete sets defaults and validates.
func (c *Config) complete() error {
	if c.Speed == 0 {
		c.Speed = 1
	}
	if c.Replicas == 0 {
		c.Replicas = 1
	}
	if c.RestartBackoff == 0 {
		c.RestartBackoff = time.Duration(float64(kubeletBackoff) / c.Speed)
	}
	if c.Machines == "" {
		c.Machines = Simulated
	}
	if c.Progress == nil {
		c.Progress = func(string) {}
	}
	if c.Notice == nil {
		c.Notice = func(string) {}
	}
	return c.validate()
}

// validate names all that cannot be.
func (c *Config) validate() error {
	var errs []error
	if c.Speed < 0 {
		errs = append(errs, fmt.Errorf("speed %v is negative", c.Speed))
	}
	if c.Machines != Simulated && c.Machines != RealKubelets {
		errs = append(errs, fmt.Errorf("machines %q: want %s or %s", c.Machines, Simulated, RealKubelets))
	}
	if c.Replicas < 0 {
		errs = append(errs, fmt.Errorf("replicas %d: is negative", c.Replicas))
	}
	if c.ManagedNodes < 0 {
		errs = append(errs, fmt.Errorf("managed nodes %d: is negative", c.ManagedNodes))
	}
	if c.AWSEndpoint != "" {
		errs = append(errs, c.checkForeign()...)
	}
	if c.SpotInterruptionsPerHour < 0 {
		errs = append(errs, fmt.Errorf("spot interruptions per hour %v: is negative", c.SpotInterruptionsPerHour))
	}
	if _, err := os.Lstat(c.KubeconfigPath); c.KubeconfigPath != "" && err == nil {
		errs = append(errs, fmt.Errorf("kubeconfig %s exists already, and it may be your only way to another cluster", c.KubeconfigPath))
	}
	for _, name := range []string{Scheduler, Launcher} {
		if _, err := os.Stat(c.binary(name)); err != nil {
			errs = append(errs, fmt.Errorf("%w: build it with `make build`", err))
		}
	}
	return errors.Join(errs...)
}

// checkForeign names what only the sandbox's own AWS can do.
func (c *Config) checkForeign() []error {
	var errs []error
	for what, asked := range map[string]bool{
		"an address to listen on": c.AWSListen != "", "managed nodes": c.ManagedNodes > 0, "spot interruptions": c.SpotInterruptionsPerHour > 0,
	} {
		if asked {
			errs = append(errs, fmt.Errorf("%s: only with the sandbox's own AWS, not with the one at %s", what, c.AWSEndpoint))
		}
	}
	return errs
}

// binary is the path of one of the two programs.
func (c *Config) binary(name string) string { return filepath.Join(c.BinDir, "slipway-"+name) }
