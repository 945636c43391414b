// Package nodematch says which nodes a pod matches by itself: its node selector and node affinity against a node's labels
// (nodeSelector and nodeAffinity of the scheduler's NodeAffinity plugin), and its tolerations against a node's taints
// (TaintToleration). Label keys are read as Karpenter reads them (NormalKey). It knows neither other pods nor resources.
package nodematch

import corev1 "k8s.io/api/core/v1"

// Label keys that are not constants of k8s.io/api.
const (
	labelEBSZone  = "topology.ebs.csi.aws.com/zone"
	labelBetaArch = "beta.kubernetes.io/arch"
	labelBetaOS   = "beta.kubernetes.io/os"
)

// FieldName stands for the node's name, as matchFields ask for it.
const FieldName = "metadata.name"

// Aliases returns the keys that mean the same as the given normal key.
func Aliases(key string) []string {
	switch key {
	case corev1.LabelTopologyZone:
		return []string{corev1.LabelFailureDomainBetaZone, labelEBSZone}
	case corev1.LabelTopologyRegion:
		return []string{corev1.LabelFailureDomainBetaRegion}
	case corev1.LabelArchStable:
		return []string{labelBetaArch}
	case corev1.LabelOSStable:
		return []string{labelBetaOS}
	case corev1.LabelInstanceTypeStable:
		return []string{corev1.LabelInstanceType}
	}
	return nil
}

// NormalKey returns the label key that a deprecated or driver-specific one stands for, as Karpenter reads them; any
// other key is returned as it is.
func NormalKey(key string) string {
	switch key {
	case corev1.LabelFailureDomainBetaZone, labelEBSZone:
		return corev1.LabelTopologyZone
	case corev1.LabelFailureDomainBetaRegion:
		return corev1.LabelTopologyRegion
	case labelBetaArch:
		return corev1.LabelArchStable
	case labelBetaOS:
		return corev1.LabelOSStable
	case corev1.LabelInstanceType:
		return corev1.LabelInstanceTypeStable
	}
	return key
}

// NodeLabels returns a node's labels, its name included, under
// FieldName. A deprecated key without its normal one is left out: the scheduler
// compares keys as they are, and nodes have had both since Kubernetes 1.17.
func NodeLabels(name string, labels map[string]string) map[string]string {
	out := make(map[string]string, len(labels)+2)
	for k, v := range labels {
		if NormalKey(k) == k {
			out[k] = v
		}
	}
	out[FieldName] = name
	if out[corev1.LabelHostname] == "" {
		out[corev1.LabelHostname] = name
	}
	return out
}
