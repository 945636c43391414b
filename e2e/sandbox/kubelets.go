package sandbox

import (
	"context"
	"path"
	"path/filepath"
	"strings"

	"github.com/slipway-k8s/slipway/e2e/machines"
	"github.com/slipway-k8s/slipway/e2e/machines/kubelet"
	"github.com/slipway-k8s/slipway/e2e/machines/registry"
)

// MachineCommand is the hidden command of slipway-sandbox that runs as init of a machine with a real kubelet.
const MachineCommand = "machine-init"

// busybox is the path in Debian's busybox-static.
const busybox = "/bin/busybox"

// Kubelets configures machines with real kubelets. The zero value is valid.
type Kubelets struct {
	// NetworkByAgent leaves the pod network to an agent, which copies kubelet.AgentFolder into kubelet.NetworkFolder.
	NetworkByAgent bool
	// RegistryBytesPerSecond limits each download from the registry; 0 means no limit.
	RegistryBytesPerSecond int64
	// Pulled is called with each image that a machine starts to pull, from goroutines of the sandbox; nil means no call.
	Pulled func(registry.Pull)
	// Downloaded is called with each layer that was sent to a machine, likewise.
	Downloaded func(registry.Download)
}

// kubelets returns machines with real kubelets, and simulated ones for managed node groups.
func (s *Sandbox) kubelets(ctx context.Context, simulated machines.Mode) (machines.Mode, error) {
	images, err := registry.New(ctx, registry.Config{
		Listen: "127.0.0.1:0", Busybox: busybox, BytesPerSecond: s.cfg.Kubelets.RegistryBytesPerSecond, Pulled: s.cfg.Kubelets.Pulled,
		Downloaded: s.cfg.Kubelets.Downloaded,
		User:       kubelet.RegistryUser, Password: kubelet.RegistryPassword(), Private: private,
	})
	if err != nil {
		return nil, err
	}
	s.run(ctx, "registry", images.Run)
	mode, err := kubelet.New(ctx, kubelet.Config{
		Folder: filepath.Join(s.claim.Folder, "machines"), Self: s.cfg.binary("sandbox"), Command: []string{MachineCommand},
		Kubelet: s.cfg.binary("kubelet"), Cluster: ClusterName, Endpoint: s.cp.Endpoint(), Registry: images.Address(),
		Token:          func(node string) (string, error) { return s.cp.Token("system:node:"+node, "system:nodes") },
		NetworkByAgent: s.cfg.Kubelets.NetworkByAgent,
		Holds:          &s.holds,
		Notice:         s.cfg.Notice,
	})
	if err != nil {
		return nil, err
	}
	return machines.Mixed(simulated, mode), nil
}

// private reports whether an image is one of ECR, which requires credentials.
func private(image string) bool {
	host, _, _ := strings.Cut(image, "/")
	ecr, err := path.Match("*.dkr.ecr.*.amazonaws.com", host)
	return err == nil && ecr
}
