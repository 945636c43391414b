package kubelet

import (
	"errors"

	"github.com/slipway-k8s/slipway/e2e/machines/instance"
)

// Config is what machines with real kubelets depend on.
type Config struct {
	// Folder holds a folder for each machine, which has its disks; it is removed once its instance is gone.
	Folder string
	// Self is the program whose arguments Command, FILE start a machine's init with the description in FILE.
	Self string
	// Command are the arguments before FILE.
	Command []string
	// Kubelet is the kubelet's binary.
	Kubelet string
	// Token returns the bearer token of the kubelet of the named node, which its instance's IAM role gets.
	Token func(nodeName string) (string, error)
	// Cluster and Endpoint are what user data must name.
	Cluster, Endpoint string
	// Registry is the address, host:port, where machines pull images.
	Registry string
	// NetworkByAgent leaves the network to an agent: a machine's CNI configuration is in AgentFolder, and there is no
	// network until a process copies it into NetworkFolder. Otherwise the network is ready when the kubelet starts.
	NetworkByAgent bool
	// DiskUsed is how much of a machine's disk its programs find used, in percent; 0 means 20.
	DiskUsed int
	// Holds keep machines from starting their kubelets, once all else of them has started; nil holds none.
	Holds *instance.Holds
	// Notice is called with what happens to machines; nil means no call.
	Notice func(string)
}

// The folders of a machine's CNI configuration.
const (
	// NetworkFolder is where containerd looks for it.
	NetworkFolder = "/run/cni/net.d"
	// AgentFolder is where it lies for an agent to install.
	AgentFolder = "/run/cni/agent"
)

// The files in a machine's folder that show its progress.
const (
	// StartedFile is written at each boot, when its kubelet starts first.
	StartedFile = "kubelet.started"
	// WaitingFile is written when a machine that is held would start its kubelet.
	WaitingFile = "kubelet.waiting"
	// heldFile exists as long as the machine is held.
	heldFile = "kubelet.held"
)

func (c *Config) complete() error {
	for _, f := range []struct{ name, value string }{
		{"Folder", c.Folder},
		{"Self", c.Self},
		{"Kubelet", c.Kubelet},
		{"Endpoint", c.Endpoint},
		{"Registry", c.Registry},
	} {
		if f.value == "" {
			return errors.New("kubelet: " + f.name + " is required")
		}
	}
	if c.Token == nil {
		return errors.New("kubelet: Token is required")
	}
	if c.DiskUsed == 0 {
		c.DiskUsed = 20
	}
	if c.Notice == nil {
		c.Notice = func(string) {}
	}
	return nil
}

// description is the input of a machine's init, as JSON in a file.
type description struct {
	Instance instance.Instance
	// Folder is the machine's own.
	Folder string
	// Kubelet is the binary.
	Kubelet string
	// Token is what the instance's IAM role gets from `aws eks get-token`.
	Token string
	// Cluster and Endpoint are what user data must name.
	Cluster, Endpoint string
	// Registry is where images come from.
	Registry string
	// PodNetwork is the range of the machine's pods.
	PodNetwork string
	// CgroupRoot is the machine's own cgroup.
	CgroupRoot string
	// NetworkByAgent and DiskUsed are the Config's.
	NetworkByAgent bool
	DiskUsed       int
	// Snapshotter is containerd's.
	Snapshotter string
	// LimitedOOM says that the host may not lower OOM scores (it lacks CAP_SYS_RESOURCE).
	LimitedOOM bool
}
