package userdata

import (
	"fmt"
	"maps"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	"github.com/pelletier/go-toml/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
)

// bottlerocket returns Bottlerocket's user data: the settings of spec.userData, overridden by those that the node needs to join
// (Bottlerocket, "Settings reference", settings.kubernetes). Bottlerocket has no setting for podsPerCore.
func bottlerocket(in Input) (string, error) {
	root := map[string]any{}
	if err := toml.Unmarshal([]byte(in.Custom), &root); err != nil {
		return "", fmt.Errorf("spec.userData: not a TOML document: %w", err)
	}
	settings, err := table(root, "settings", "settings")
	if err != nil {
		return "", err
	}
	kubernetes, err := table(settings, "kubernetes", "settings.kubernetes")
	if err != nil {
		return "", err
	}
	labels, err := table(kubernetes, "node-labels", "settings.kubernetes.node-labels")
	if err != nil {
		return "", err
	}
	for key, value := range in.Labels {
		if kubeletMaySet(key) {
			labels[key] = value
		}
	}
	if _, says := kubernetes["registry-burst"]; in.atOnce && !says {
		kubernetes["registry-burst"] = in.burst()
	}
	maps.Copy(kubernetes, joinSettings(in))
	maps.Copy(kubernetes, kubeletSettings(in))
	if in.RAID0 {
		commands, err := table(settings, "bootstrap-commands", "settings.bootstrap-commands")
		if err != nil {
			return "", err
		}
		commands["000-mount-instance-storage"] = map[string]any{
			"commands": [][]string{
				{"apiclient", "ephemeral-storage", "init"},
				bindCommand(in.AMIVersion),
			},
			"essential": true,
			"mode":      "always",
		}
	}
	out, err := toml.Marshal(root)
	if err != nil {
		return "", fmt.Errorf("writing the settings: %w", err)
	}
	return string(out), nil
}

// bindCommand returns the command that puts directories on the local disks. From 1.46.0 on Bottlerocket itself knows which ones (Karpenter,
// pkg/providers/version, SupportsDefaultBind).
func bindCommand(amiVersion string) []string {
	bind := []string{"apiclient", "ephemeral-storage", "bind"}
	v, err := version.ParseGeneric(amiVersion)
	if amiVersion == awsv1.AliasVersionLatest || err == nil && v.AtLeast(version.MajorMinor(1, 46)) {
		return bind
	}
	return append(bind, "--dirs", "/var/lib/containerd", "/var/lib/kubelet", "/var/log/pods")
}

// table returns the table of parent under key, and creates it if it is missing.
func table(parent map[string]any, key, path string) (map[string]any, error) {
	value, ok := parent[key]
	if !ok {
		out := map[string]any{}
		parent[key] = out
		return out, nil
	}
	out, ok := value.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("spec.userData: %s is not a table", path)
	}
	return out, nil
}

func joinSettings(in Input) map[string]any {
	out := map[string]any{
		"cluster-name":        in.Cluster.Name,
		"api-server":          in.Cluster.Endpoint,
		"cluster-certificate": in.Cluster.CertificateAuthority,
	}
	if len(in.Taints) > 0 {
		out["node-taints"] = taintSettings(in.Taints)
	}
	return out
}

func taintSettings(taints []corev1.Taint) map[string][]string {
	out := map[string][]string{}
	for _, t := range taints {
		out[t.Key] = append(out[t.Key], t.Value+":"+string(t.Effect))
	}
	return out
}

func kubeletSettings(in Input) map[string]any {
	out := map[string]any{}
	kubelet := in.kubelet()
	number := func(name string, n *int32) {
		if n != nil {
			out[name] = *n
		}
	}
	texts := func(name string, m map[string]string) {
		if len(m) > 0 {
			out[name] = m
		}
	}
	number("max-pods", kubelet.MaxPods)
	number("eviction-max-pod-grace-period", kubelet.EvictionMaxPodGracePeriod)
	texts("system-reserved", kubelet.SystemReserved)
	texts("kube-reserved", kubelet.KubeReserved)
	texts("eviction-hard", kubelet.EvictionHard)
	texts("eviction-soft", kubelet.EvictionSoft)
	texts("eviction-soft-grace-period", durations(kubelet.EvictionSoftGracePeriod))
	// The two thresholds are strings in Bottlerocket's settings.
	if n := kubelet.ImageGCHighThresholdPercent; n != nil {
		out["image-gc-high-threshold-percent"] = fmt.Sprint(*n)
	}
	if n := kubelet.ImageGCLowThresholdPercent; n != nil {
		out["image-gc-low-threshold-percent"] = fmt.Sprint(*n)
	}
	if len(kubelet.ClusterDNS) > 0 {
		out["cluster-dns-ip"] = kubelet.ClusterDNS[0]
	}
	if kubelet.CPUCFSQuota != nil {
		out["cpu-cfs-quota-enforced"] = *kubelet.CPUCFSQuota
	}
	return out
}
