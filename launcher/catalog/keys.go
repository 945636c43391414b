package catalog

import corev1 "k8s.io/api/core/v1"

// Label keys that are not constants of k8s.io/api.
const (
	labelEBSZone  = "topology.ebs.csi.aws.com/zone"
	labelBetaArch = "beta.kubernetes.io/arch"
	labelBetaOS   = "beta.kubernetes.io/os"
)

// Aliases returns the keys that mean the same as the given normal key.
func Aliases(key string) []string {
	var out []string
	if beta := BetaKey(key); beta != "" {
		out = append(out, beta)
	}
	if key == corev1.LabelTopologyZone {
		out = append(out, labelEBSZone)
	}
	return out
}

// BetaKey returns the deprecated key that a Node of Kubernetes has beside the given normal key; empty for none.
func BetaKey(key string) string {
	switch key {
	case corev1.LabelTopologyZone:
		return corev1.LabelFailureDomainBetaZone
	case corev1.LabelTopologyRegion:
		return corev1.LabelFailureDomainBetaRegion
	case corev1.LabelArchStable:
		return labelBetaArch
	case corev1.LabelOSStable:
		return labelBetaOS
	case corev1.LabelInstanceTypeStable:
		return corev1.LabelInstanceType
	}
	return ""
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
