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

// MachineCommand is the hidden command of slipway-sandbox that is the init of a machine with a real kubelet.
const MachineCommand = "machine-init"

// busybox is where Debian's busybox-static puts it.
const busybox = "/bin/busybox"

// Kubelets is what machines with real kubelets find. The zero value is a good one.
type Kubelets struct {
	// NetworkByAgent leaves the network of pods to an agent, which copies kubelet.AgentFolder into kubelet.NetworkFolder.
	NetworkByAgent bool
	// RegistryBytesPerSecond bounds each download from the registry; 0 means no bound.
	RegistryBytesPerSecond int64
	// Pulled is told of each image that a machine begins to pull, from goroutines of the sandbox; nil means nobody listens.
	Pulled func(registry.Pull)
	// Downloaded is told of each layer that a machine was sent, likewise.
	Downloaded func(registry.Download)
}

// kubelets are machines with real kubelets beside the simulated ones of managed node groups.
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

// private images are those of ECR, which gives nothing to strangers.
func private(image string) bool {
	host, _, _ := strings.Cut(image, "/")
	ecr, err := path.Match("*.dkr.ecr.*.amazonaws.com", host)
	return err == nil && ecr
}
