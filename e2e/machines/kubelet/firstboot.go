package kubelet

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"strconv"
	"strings"

	"github.com/slipway-k8s/slipway/e2e/machines/userdata"
	launcherdata "github.com/slipway-k8s/slipway/launcher/aws/userdata"
)

const (
	containerdSocket = "/run/containerd/containerd.sock"
	kubeletFolder    = "/var/lib/kubelet"
	authorityFile    = kubeletFolder + "/ca.crt"
	configFile       = "/run/kubelet/config.json"
	kubeconfigFile   = kubeletFolder + "/kubeconfig"
	containerdFolder = "/var/lib/containerd"
	environmentFile  = "/run/kubelet/environment"
)

// files are written at first boot, by path.
type files map[string][]byte

// firstBoot is what nodeadm makes of the user data: the kubelet's configuration and arguments. It is pure. The settings
// are those of nodeadm's generateKubeletConfig but for what the machine's small world asks for: cgroupfs, cgroup v1 where
// the host has it, and OOM scores left alone.
func firstBoot(d description) (files, []string, error) {
	user, err := userdata.Parse(d.Instance.UserData)
	if err != nil {
		return nil, nil, err
	}
	if d.Cluster != "" && user.Cluster != d.Cluster {
		return nil, nil, fmt.Errorf("user data: cluster %q, want %q", user.Cluster, d.Cluster)
	}
	if user.Endpoint != d.Endpoint {
		return nil, nil, fmt.Errorf("user data: API server endpoint %q, want %q", user.Endpoint, d.Endpoint)
	}
	authority, err := base64.StdEncoding.DecodeString(user.CertificateAuthority)
	if err != nil {
		return nil, nil, fmt.Errorf("user data: certificate authority: %w", err)
	}
	dns, err := clusterDNS(user.ServiceCIDR)
	if err != nil {
		return nil, nil, fmt.Errorf("user data: spec.cluster.cidr: %w", err)
	}
	config := kubeletConfig(d, user, dns)
	data, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return nil, nil, err
	}
	args := arguments(d, user)
	written := files{
		authorityFile: authority, configFile: data, kubeconfigFile: kubeconfig(d),
		environmentFile: []byte("NODEADM_KUBELET_ARGS=" + strings.Join(args, " ") + "\n"),
	}
	maps.Copy(written, standIns(d))
	scripts, err := userdata.Scripts(d.Instance.UserData)
	if err != nil {
		return nil, nil, err
	}
	if script, ok := scripts[launcherdata.PrefetchFile]; ok {
		written[prefetchFile] = []byte(script)
	}
	return written, args, nil
}

// clusterDNS is the tenth address of the services' range, where EKS puts it.
func clusterDNS(cidr string) (string, error) {
	network, err := netip.ParsePrefix(cidr)
	if err != nil {
		return "", err
	}
	address := network.Masked().Addr()
	for range 10 {
		address = address.Next()
	}
	return address.String(), nil
}

func kubeletConfig(d description, user userdata.Config, dns string) map[string]any {
	pods := d.Instance.PodLimit
	config := map[string]any{
		"apiVersion":     "kubelet.config.k8s.io/v1beta1",
		"kind":           "KubeletConfiguration",
		"authentication": map[string]any{"anonymous": map[string]any{"enabled": false}, "webhook": map[string]any{"enabled": true}, "x509": map[string]any{"clientCAFile": authorityFile}},
		"authorization":  map[string]any{"mode": "Webhook"},
		"cgroupDriver":   "cgroupfs", "cgroupRoot": "/", "failCgroupV1": false,
		"clusterDNS":               []string{dns},
		"clusterDomain":            "cluster.local",
		"containerRuntimeEndpoint": "unix://" + containerdSocket,
		"evictionHard":             map[string]string{"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%"},
		"hairpinMode":              "hairpin-veth",
		"kubeReserved":             map[string]string{"cpu": strconv.FormatInt(d.Instance.ReservedMilliCPU(), 10) + "m", "memory": strconv.FormatInt(255+11*pods, 10) + "Mi", "ephemeral-storage": "1Gi"},
		"logging":                  map[string]any{"verbosity": 2},
		"maxPods":                  pods,
		"oomScoreAdj":              0,
		"providerID":               d.Instance.ProviderID(),
		"readOnlyPort":             0,
		"resolvConf":               "",
		"serializeImagePulls":      false,
	}
	maps.Copy(config, user.Kubelet)
	return config
}

// arguments are the kubelet's flags, nodeadm's first: the user's come last and win.
func arguments(d description, user userdata.Config) []string {
	own := []string{
		"--config=" + configFile,
		"--kubeconfig=" + kubeconfigFile,
		"--hostname-override=" + d.Instance.PrivateDNSName,
		"--node-ip=" + d.Instance.PrivateIP,
		"--cloud-provider=external",
		"--root-dir=" + kubeletFolder,
		"--image-credential-provider-config=" + credentialsFile,
		"--image-credential-provider-bin-dir=" + standInFolder,
		fmt.Sprintf("--machine-cpus=%d", d.Instance.CPUs),
		fmt.Sprintf("--machine-memory-bytes=%d", d.Instance.SeenMemory()),
		fmt.Sprintf("--machine-volume-bytes=%d", d.Instance.SeenRootVolume()),
	}
	return append(own, user.Arguments()...)
}
