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
