package userdata

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// kubeletFlags returns the kubelet's command line flags for spec.kubelet, labels and taints.
func kubeletFlags(in Input) []string {
	var out []string
	text := func(name, value string) {
		if value != "" {
			out = append(out, "--"+name+"="+value)
		}
	}
	number := func(name string, n *int32) {
		if n != nil {
			text(name, fmt.Sprint(*n))
		}
	}
	kubelet := in.kubelet()
	text("node-labels", in.nodeLabels())
	taints := make([]string, 0, len(in.Taints))
	for _, t := range in.Taints {
		taints = append(taints, t.ToString())
	}
	text("register-with-taints", strings.Join(taints, ","))
	number("max-pods", kubelet.MaxPods)
	number("pods-per-core", kubelet.PodsPerCore)
	if in.atOnce && !setsBurst(in.Custom) {
		number("registry-burst", new(in.burst()))
	}
	text("system-reserved", pairs(kubelet.SystemReserved, "="))
	text("kube-reserved", pairs(kubelet.KubeReserved, "="))
	text("eviction-hard", pairs(kubelet.EvictionHard, "<"))
	text("eviction-soft", pairs(kubelet.EvictionSoft, "<"))
	text("eviction-soft-grace-period", pairs(durations(kubelet.EvictionSoftGracePeriod), "="))
	number("eviction-max-pod-grace-period", kubelet.EvictionMaxPodGracePeriod)
	number("image-gc-high-threshold", kubelet.ImageGCHighThresholdPercent)
	number("image-gc-low-threshold", kubelet.ImageGCLowThresholdPercent)
	if kubelet.CPUCFSQuota != nil {
		text("cpu-cfs-quota", fmt.Sprint(*kubelet.CPUCFSQuota))
	}
	return out
}

func pairs(m map[string]string, sign string) string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		out = append(out, key+sign+m[key])
	}
	return strings.Join(out, ",")
}

func durations(m map[string]metav1.Duration) map[string]string {
	out := make(map[string]string, len(m))
	for key, d := range m {
		out[key] = d.Duration.String()
	}
	return out
}
