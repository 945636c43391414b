package sandbox

import (
	"context"
	"path/filepath"

	"github.com/slipway-k8s/slipway/e2e/machines"
	"github.com/slipway-k8s/slipway/e2e/machines/kubelet"
	"github.com/slipway-k8s/slipway/e2e/machines/registry"
)

// MachineCommand is the hidden command of slipway-sandbox that is the init of a machine with a real kubelet.
const MachineCommand = "machine-init"

// busybox is where Debian's busybox-static puts it.
const busybox = "/bin/busybox"

// kubelets are machines with real kubelets beside the simulated ones of managed node groups.
func (s *Sandbox) kubelets(ctx context.Context, simulated machines.Mode) (machines.Mode, error) {
	images, err := registry.New(ctx, registry.Config{Listen: "127.0.0.1:0", Busybox: busybox})
	if err != nil {
		return nil, err
	}
	s.run(ctx, "registry", images.Run)
	mode, err := kubelet.New(kubelet.Config{
		Folder: filepath.Join(s.claim.Folder, "machines"), Self: s.cfg.binary("sandbox"), Command: []string{MachineCommand},
		Kubelet: s.cfg.binary("kubelet"), Cluster: ClusterName, Endpoint: s.cp.Endpoint(), Registry: images.Address(),
		KubeConfig: func(node string) ([]byte, error) { return s.cp.KubeConfig("system:node:"+node, "system:nodes") },
		Notice:     s.cfg.Notice,
	})
	if err != nil {
		return nil, err
	}
	return machines.Mixed(simulated, mode), nil
}
