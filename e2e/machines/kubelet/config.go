package kubelet

import (
	"errors"

	"github.com/slipway-k8s/slipway/e2e/machines/instance"
)

// Config is what machines with real kubelets depend on.
type Config struct {
	// Folder holds a folder for each machine; it is removed with the machine.
	Folder string
	// Self is the program whose arguments Command, FILE start a machine's init with the description in FILE.
	Self string
	// Command are the arguments before FILE.
	Command []string
	// Kubelet is the kubelet's binary.
	Kubelet string
	// KubeConfig returns what the kubelet of the named node identifies itself with, as AWS's IAM would.
	KubeConfig func(nodeName string) ([]byte, error)
	// Cluster and Endpoint are what user data must name.
	Cluster, Endpoint string
	// Registry is the address, host:port, where machines pull images.
	Registry string
	// Notice is told what happens to machines; nil is silent.
	Notice func(string)
}

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
	if c.KubeConfig == nil {
		return errors.New("kubelet: KubeConfig is required")
	}
	if c.Notice == nil {
		c.Notice = func(string) {}
	}
	return nil
}

// description is what a machine's init is told, as JSON in a file.
type description struct {
	Instance instance.Instance
	// Folder is the machine's own.
	Folder string
	// Kubelet is the binary.
	Kubelet string
	// KubeConfig is the file that stands for the instance's IAM identity.
	KubeConfig string
	// Cluster and Endpoint are what user data must name.
	Cluster, Endpoint string
	// Registry is where images come from.
	Registry string
	// PodNetwork is the range of the machine's pods.
	PodNetwork string
	// CgroupRoot is the machine's own cgroup.
	CgroupRoot string
	// LimitedOOM says that the host may not lower OOM scores (it lacks CAP_SYS_RESOURCE).
	LimitedOOM bool
}
