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

// kubeletBackoff is how long a kubelet waits before the second restart of a container.
const kubeletBackoff = 10 * time.Second

// ClusterName is the name of the sandbox's cluster, on which the names and tags of its subnets, security groups and roles
// depend.
const ClusterName = "slipway"

// The kinds of machines that run as instances.
const (
	// Simulated are kubelets that run nothing; hundreds fit on a laptop.
	Simulated = "sim"
	// Light are simulated kubelets that share goroutines and report less; 5,000 and the control plane fit on a laptop.
	Light = "light"
	// RealKubelets are machines with a kubelet and a containerd each, on Linux as root.
	RealKubelets = "kubelet"
)

// The IP families of clusters, as EKS names them.
const (
	// IPv4 clusters give pods, Services and nodes IPv4 addresses.
	IPv4 = "ipv4"
	// IPv6 clusters give them IPv6 addresses.
	IPv6 = "ipv6"
)

// serviceCIDRs are the ranges of Services by IP family; the one of IPv6 is a unique local range as EKS assigns it.
func serviceCIDRs() map[string]string {
	return map[string]string{IPv4: "10.100.0.0/16", IPv6: "fd30:1c53:5f8a::/108"}
}

// Config configures a sandbox. Only BinDir is required.
type Config struct {
	// BinDir is the folder of slipway-scheduler and slipway-launcher.
	BinDir string
	// WithoutSlipway starts neither scheduler nor launcher, for others in their place.
	WithoutSlipway bool
	// Name is the sandbox's; empty means the first free one of sandbox, sandbox-2, and so on.
	Name string
	// Speed divides the delays of AWS and of machines; 0 means 1.
	Speed float64
	// AWSListen is the listen address of AWS; empty means a free port on loopback.
	AWSListen string
	// AWSEndpoint is the URL of another AWS to use, such as LocalStack or moto; empty means the sandbox's own.
	AWSEndpoint string
	// KubeconfigPath is the path of the administrator's kubeconfig. The file must not exist. Empty means a file in the
	// sandbox's folder.
	KubeconfigPath string
	// IPFamily is that of the EKS cluster: IPv4, the default, or IPv6.
	IPFamily string
	// Machines is the kind of machines: Simulated, the default, Light, or RealKubelets.
	Machines string
	// Kubelets configures machines of kind RealKubelets.
	Kubelets Kubelets
	// NodeSyncs is how many Nodes the cloud controller initializes at a time, its --concurrent-node-syncs. 0 is its default, 1.
	NodeSyncs int32
	// ManagedNodes is the number of nodes of an EKS managed node group at the start.
	ManagedNodes int
	// Addons installs what EKS runs in every cluster: the DaemonSets aws-node and kube-proxy, and the Deployment coredns.
	Addons bool
	// SpotInterruptionsPerHour is how often AWS interrupts a random spot instance, in hours of AWS's own time.
	SpotInterruptionsPerHour float64
	// SpotNotice is the time between a spot instance's interruption notice and its end, in real time; 0 means two minutes
	// divided by Speed.
	SpotNotice time.Duration
	// Seed makes prices, ids and delays repeatable.
	Seed uint64
	// EmulatedVersion is the version that the control plane emulates, and the scheduler with it, for example 1.35; empty means
	// the version from which they were built.
	EmulatedVersion string
	// SchedulerBinary is the path of another build of slipway-scheduler; empty means the one in BinDir.
	SchedulerBinary string
	// ChangeScheduler adapts the fields of the scheduler's configuration; nil means no change.
	ChangeScheduler func(config map[string]any)
	// PluginArgs are additional arguments of NodeLaunch in the scheduler's configuration.
	PluginArgs map[string]any
	// StockProfile is the schedulerName of an additional profile with Kubernetes' own plugins only, for comparison; empty
	// means none.
	StockProfile string
	// SchedulerArgs and LauncherArgs are additional command line arguments of the two processes.
	SchedulerArgs, LauncherArgs []string
	// LauncherEnv are additional variables of the launcher's environment, such as A=b.
	LauncherEnv []string
	// Replicas is the number of pairs of scheduler and launcher, one of which leads; 0 means 1.
	Replicas int
	// Taps puts a proxy between each process and the servers that it calls, for Journal and Taps.
	Taps bool
	// AuditLog is the path of a file to which kube-apiserver writes each request but the Leases of kubelets; empty means none.
	AuditLog string
	// RestartBackoff is the delay before the second restart in a row of a process; 0 means a kubelet's, divided by Speed.
	RestartBackoff time.Duration
	// Progress is called during the start with each started part and its duration, and meanwhile with one that takes long; nil means no call.
	Progress func(text string)
	// Notice is called after the start with what happened by itself, such as a process that ended and was restarted. The
	// calls come from goroutines of the sandbox; nil means no call.
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
	if c.IPFamily == "" {
		c.IPFamily = IPv4
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

// validate returns an error that lists all invalid values.
func (c *Config) validate() error {
	var errs []error
	if c.Speed < 0 {
		errs = append(errs, fmt.Errorf("validating speed %v: is negative", c.Speed))
	}
	if c.Machines != Simulated && c.Machines != Light && c.Machines != RealKubelets {
		errs = append(errs, fmt.Errorf("validating machines %q: want %s, %s or %s", c.Machines, Simulated, Light, RealKubelets))
	}
	if err := c.checkFamily(); err != nil {
		errs = append(errs, err)
	}
	if c.Replicas < 0 {
		errs = append(errs, fmt.Errorf("validating replicas %d: is negative", c.Replicas))
	}
	if n := min(c.ManagedNodes, int(c.NodeSyncs)); n < 0 {
		errs = append(errs, fmt.Errorf("validating managed nodes %d and concurrent node syncs %d: is negative", c.ManagedNodes, c.NodeSyncs))
	}
	if c.AWSEndpoint != "" {
		errs = append(errs, c.checkForeign()...)
	}
	if c.SpotInterruptionsPerHour < 0 {
		errs = append(errs, fmt.Errorf("validating spot interruptions per hour %v: is negative", c.SpotInterruptionsPerHour))
	}
	if _, err := os.Lstat(c.KubeconfigPath); c.KubeconfigPath != "" && err == nil {
		errs = append(errs, fmt.Errorf("kubeconfig %s exists already, and it may be your only way to another cluster", c.KubeconfigPath))
	}
	for _, name := range []string{Scheduler, Launcher} {
		if _, err := os.Stat(c.binary(name)); err != nil && !c.WithoutSlipway {
			errs = append(errs, fmt.Errorf("%w: build it with `make build`", err))
		}
	}
	return errors.Join(errs...)
}

// checkFamily returns an error for an IP family that there is not, or not with these machines.
func (c *Config) checkFamily() error {
	switch {
	case serviceCIDRs()[c.IPFamily] == "":
		return fmt.Errorf("validating IP family %q: want %s or %s", c.IPFamily, IPv4, IPv6)
	case c.IPFamily == IPv6 && c.Machines == RealKubelets:
		return fmt.Errorf("validating IP family %s: only with machines %s or %s", IPv6, Simulated, Light)
	}
	return nil
}

// checkForeign lists what needs the sandbox's own AWS.
func (c *Config) checkForeign() []error {
	var errs []error
	for what, asked := range map[string]bool{
		"an address to listen on": c.AWSListen != "", "managed nodes": c.ManagedNodes > 0, "IP family ipv6": c.IPFamily == IPv6, "spot interruptions": c.SpotInterruptionsPerHour > 0,
	} {
		if asked {
			errs = append(errs, fmt.Errorf("%s: only with the sandbox's own AWS, not with the one at %s", what, c.AWSEndpoint))
		}
	}
	return errs
}

// binary returns the path of one of the two programs.
func (c *Config) binary(name string) string {
	if name == Scheduler && c.SchedulerBinary != "" {
		return c.SchedulerBinary
	}
	return filepath.Join(c.BinDir, "slipway-"+name)
}
