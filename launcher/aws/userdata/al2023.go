package userdata

import (
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

const (
	nodeConfigVersion = "node.eks.aws/v1alpha1"
	nodeConfigKind    = "NodeConfig"
)

// nodeConfig holds the fields of nodeadm's NodeConfig that are used (amazon-eks-ami, nodeadm/api/v1alpha1).
type nodeConfig struct {
	APIVersion string         `json:"apiVersion"`
	Kind       string         `json:"kind"`
	Spec       nodeConfigSpec `json:"spec"`
}

type nodeConfigSpec struct {
	Cluster  nodeConfigCluster   `json:"cluster"`
	Instance *nodeConfigInstance `json:"instance,omitempty"`
	Kubelet  nodeConfigKubelet   `json:"kubelet"`
}

type nodeConfigCluster struct {
	Name                 string `json:"name"`
	APIServerEndpoint    string `json:"apiServerEndpoint"`
	CertificateAuthority string `json:"certificateAuthority"`
	CIDR                 string `json:"cidr"`
}

type nodeConfigInstance struct {
	LocalStorage struct {
		Strategy string `json:"strategy"`
	} `json:"localStorage"`
}

type nodeConfigKubelet struct {
	Config map[string]any `json:"config,omitempty"`
	Flags  []string       `json:"flags,omitempty"`
}

// nodeadm returns AL2023's user data: defaults that the user may override, the parts of spec.userData, then the launcher's NodeConfig, which
// overrides the user's fields (amazon-eks-ami, nodeadm: later NodeConfigs are merged over earlier ones).
func nodeadm(in Input) (string, error) {
	parts, err := customParts(in.Custom, true)
	if err != nil {
		return "", err
	}
	config := nodeConfig{APIVersion: nodeConfigVersion, Kind: nodeConfigKind}
	config.Spec.Cluster = nodeConfigCluster{
		Name:                 in.Cluster.Name,
		APIServerEndpoint:    in.Cluster.Endpoint,
		CertificateAuthority: in.Cluster.CertificateAuthority,
		CIDR:                 in.Cluster.ServiceCIDR,
	}
	if in.RAID0 {
		config.Spec.Instance = &nodeConfigInstance{}
		config.Spec.Instance.LocalStorage.Strategy = "RAID0"
	}
	if config.Spec.Kubelet.Config, err = kubeletConfig(in); err != nil {
		return "", err
	}
	if labels := in.nodeLabels(); labels != "" {
		config.Spec.Kubelet.Flags = []string{"--node-labels=" + labels}
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		return "", fmt.Errorf("writing the NodeConfig: %w", err)
	}
	parts = append(parts, newPart(nodeConfigType, string(text)))
	if in.atOnce {
		first, err := burstConfig(in)
		if err != nil {
			return "", err
		}
		parts = slices.Insert(parts, 0, first)
	}
	parts = in.withResume(parts)
	if in.Prefetch {
		parts = withPrefetch(parts)
	}
	return archive(parts), nil
}

// kubeletConfig returns spec.kubelet and the taints as fields of a KubeletConfiguration; the field names are the same.
func kubeletConfig(in Input) (map[string]any, error) {
	text, err := json.Marshal(in.kubelet())
	if err != nil {
		return nil, fmt.Errorf("spec.kubelet: %w", err)
	}
	out := map[string]any{}
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("spec.kubelet: %w", err)
	}
	if len(in.Taints) > 0 {
		out["registerWithTaints"] = registeredTaints(in.Taints)
	}
	return out, nil
}

func registeredTaints(taints []corev1.Taint) []map[string]string {
	out := make([]map[string]string, 0, len(taints))
	for _, t := range taints {
		entry := map[string]string{"key": t.Key, "effect": string(t.Effect)}
		if t.Value != "" {
			entry["value"] = t.Value
		}
		out = append(out, entry)
	}
	return out
}

// burstConfig returns a NodeConfig that precedes the user's, so that the user's settings override it.
func burstConfig(in Input) (part, error) {
	config := map[string]any{
		"apiVersion": nodeConfigVersion, "kind": nodeConfigKind,
		"spec": map[string]any{"kubelet": nodeConfigKubelet{Config: map[string]any{"registryBurst": in.burst()}}},
	}
	text, err := yaml.Marshal(config)
	if err != nil {
		return part{}, fmt.Errorf("writing the NodeConfig of the kubelet's limit: %w", err)
	}
	return newPart(nodeConfigType, string(text)), nil
}
