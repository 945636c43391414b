// Package userdata reads the user data of an instance as the boot agents of EKS's images do: nodeadm on AL2023 (MIME parts
// with NodeConfig documents), Bottlerocket's settings (TOML) and the call of Start-EKSBootstrap.ps1 on Windows. What these agents or the kubelet would refuse is an
// error here, and a machine with such user data does not join. It is pure.
package userdata

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	kubeletapis "k8s.io/kubelet/pkg/apis"
)

// Config is the kubelet's configuration in user data.
type Config struct {
	// Cluster is the name of the EKS cluster to join.
	Cluster string
	// Endpoint is the URL of its API server.
	Endpoint string
	// CertificateAuthority is the cluster's CA bundle in base64.
	CertificateAuthority string
	// ServiceCIDR is the range of cluster IPs; nodeadm takes cluster DNS from it. Empty with Bottlerocket.
	ServiceCIDR string
	// Labels are --node-labels.
	Labels map[string]string
	// Taints are --register-with-taints.
	Taints []corev1.Taint
	// MaxPods is the limit of pods, 0 for the one that the network interfaces give.
	MaxPods int64
	// PodsPerCore limits the pods by vCPUs, 0 for no such limit.
	PodsPerCore int64
	// KubeReserved, SystemReserved and EvictionHard are the kubelet's settings of these names; nil means the image's own.
	KubeReserved, SystemReserved, EvictionHard map[string]string
	// Kubelet is the KubeletConfiguration as the documents set it, merged; nil where the format has none.
	Kubelet map[string]any
	// Flags are the kubelet's flags as given.
	Flags []string
	// InstanceStore says that pods' ephemeral storage is on the local disks (RAID0).
	InstanceStore bool
	// Bottlerocket is true for Bottlerocket's settings, false for nodeadm's.
	Bottlerocket bool
}

// Parse reads user data. The error names the field that is missing or wrong.
func Parse(data string) (Config, error) {
	var (
		cfg Config
		err error
	)
	switch {
	case strings.TrimSpace(data) == "":
		return Config{}, errors.New("user data: empty")
	case isWindows(data):
		cfg, err = parseWindows(data)
	case isBottlerocket(data):
		cfg, err = parseBottlerocket(data)
	default:
		cfg, err = parseNodeadm(data)
	}
	if err != nil {
		return Config{}, fmt.Errorf("user data: %w", err)
	}
	if err := cfg.validate(); err != nil {
		return Config{}, fmt.Errorf("user data: %w", err)
	}
	return cfg, nil
}

// Arguments are the kubelet's command line as far as the user data gives it: all labels in one flag, then the other flags.
func (c Config) Arguments() []string {
	var out []string
	if len(c.Labels) > 0 {
		labels := make([]string, 0, len(c.Labels))
		for _, key := range slices.Sorted(maps.Keys(c.Labels)) {
			labels = append(labels, key+"="+c.Labels[key])
		}
		out = append(out, "--node-labels="+strings.Join(labels, ","))
	}
	for _, flag := range c.Flags {
		// systemd takes the quotes off.
		flag = strings.NewReplacer(`"`, "", "'", "").Replace(flag)
		if name, _, _ := strings.Cut(strings.TrimLeft(flag, "-"), "="); name != "node-labels" {
			out = append(out, flag)
		}
	}
	return out
}

func (c Config) validate() error {
	switch {
	case c.Cluster == "":
		return errors.New("cluster name is missing")
	case c.Endpoint == "":
		return errors.New("API server endpoint is missing")
	case c.CertificateAuthority == "":
		return errors.New("certificate authority is missing")
	}
	for key := range c.Labels {
		if kubernetesOwn(key) && !kubeletapis.IsKubeletLabel(key) {
			// cmd/kubelet/app/options: ValidateKubeletFlags ends the kubelet.
			return fmt.Errorf("--node-labels: unknown 'kubernetes.io' or 'k8s.io' label %q", key)
		}
	}
	return nil
}

func kubernetesOwn(key string) bool {
	namespace, _, found := strings.Cut(key, "/")
	if !found {
		return false
	}
	for _, own := range []string{"kubernetes.io", "k8s.io"} {
		if namespace == own || strings.HasSuffix(namespace, "."+own) {
			return true
		}
	}
	return false
}

// parseTaint reads KEY=VALUE:EFFECT, KEY:EFFECT.
func parseTaint(s string) (corev1.Taint, error) {
	keyValue, effect, ok := cutLast(s, ":")
	if !ok {
		return corev1.Taint{}, fmt.Errorf("taint %q has no effect", s)
	}
	key, value, _ := strings.Cut(keyValue, "=")
	return newTaint(key, value, effect)
}

func newTaint(key, value, effect string) (corev1.Taint, error) {
	switch e := corev1.TaintEffect(effect); e {
	case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		if key == "" {
			return corev1.Taint{}, fmt.Errorf("taint with effect %s has no key", effect)
		}
		return corev1.Taint{Key: key, Value: value, Effect: e}, nil
	default:
		return corev1.Taint{}, fmt.Errorf("taint %q has the unknown effect %q", key, effect)
	}
}

func cutLast(s, sep string) (string, string, bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}
