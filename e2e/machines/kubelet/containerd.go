package kubelet

import (
	"fmt"
	"strconv"
)

// containerdConfig is containerd's configuration (version 2, as containerd 1.6 and 1.7 read it).
func containerdConfig(d description) []byte {
	return fmt.Appendf(nil, `version = 2
root = %q
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper"]
[grpc]
address = %q
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "registry.k8s.io/pause:3.10.1"
restrict_oom_score_adj = %s
disable_apparmor = true
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = %q
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "/usr/lib/cni"
conf_dir = %q
[plugins."io.containerd.grpc.v1.cri".registry]
config_path = "/run/containerd-certs.d"
`, containerdFolder, containerdSocket, strconv.FormatBool(d.LimitedOOM), d.Snapshotter, NetworkFolder)
}

// registryHosts makes containerd ask the registry for images of every name.
func registryHosts(d description) []byte {
	return fmt.Appendf(nil, "[host.%q]\ncapabilities = [\"pull\", \"resolve\"]\n", "http://"+d.Registry)
}

// networkConfig is the CNI configuration: a bridge of the machine's own.
func networkConfig(d description) []byte {
	return fmt.Appendf(nil, `{
  "cniVersion": "0.4.0", "name": "pods",
  "plugins": [
    {"type": "bridge", "bridge": "cni0", "isDefaultGateway": true, "ipMasq": false, "hairpinMode": true,
     "ipam": {"type": "host-local", "dataDir": "/run/cni/ipam", "ranges": [[{"subnet": %q}]]}},
    {"type": "portmap", "capabilities": {"portMappings": true}}
  ]
}
`, d.PodNetwork)
}
