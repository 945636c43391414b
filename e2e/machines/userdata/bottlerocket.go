package userdata

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// bottlerocketSettings is the part of Bottlerocket's settings that a simulated machine knows.
type bottlerocketSettings struct {
	Settings struct {
		Kubernetes struct {
			ClusterName        string              `toml:"cluster-name"`
			APIServer          string              `toml:"api-server"`
			ClusterCertificate string              `toml:"cluster-certificate"`
			NodeLabels         map[string]string   `toml:"node-labels"`
			NodeTaints         map[string][]string `toml:"node-taints"`
			MaxPods            int64               `toml:"max-pods"`
			KubeReserved       map[string]string   `toml:"kube-reserved"`
			SystemReserved     map[string]string   `toml:"system-reserved"`
			EvictionHard       map[string]string   `toml:"eviction-hard"`
		} `toml:"kubernetes"`
	} `toml:"settings"`
}

func isBottlerocket(data string) bool {
	for line := range strings.SplitSeq(data, "\n") {
		if l := strings.TrimSpace(line); strings.HasPrefix(l, "[settings.") || l == "[settings]" || strings.HasPrefix(l, "settings.") {
			return true
		}
	}
	return false
}

func parseBottlerocket(data string) (Config, error) {
	var doc bottlerocketSettings
	if err := toml.Unmarshal([]byte(data), &doc); err != nil {
		return Config{}, fmt.Errorf("settings: %w", err)
	}
	k := doc.Settings.Kubernetes
	cfg := Config{
		Bottlerocket:         true,
		Cluster:              k.ClusterName,
		Endpoint:             k.APIServer,
		CertificateAuthority: k.ClusterCertificate,
		Labels:               k.NodeLabels,
		MaxPods:              k.MaxPods,
		KubeReserved:         k.KubeReserved,
		SystemReserved:       k.SystemReserved,
		EvictionHard:         k.EvictionHard,
	}
	for _, key := range slices.Sorted(maps.Keys(k.NodeTaints)) {
		for _, valueEffect := range k.NodeTaints[key] {
			value, effect, ok := cutLast(valueEffect, ":")
			if !ok {
				return Config{}, fmt.Errorf("settings.kubernetes.node-taints: %q of %q has no effect", valueEffect, key)
			}
			taint, err := newTaint(key, value, effect)
			if err != nil {
				return Config{}, fmt.Errorf("settings.kubernetes.node-taints: %w", err)
			}
			cfg.Taints = append(cfg.Taints, taint)
		}
	}
	return cfg, nil
}
