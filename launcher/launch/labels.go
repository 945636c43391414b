package launch

import (
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// kubeletLabels returns the labels of a claim that its kubelet registers with. Labels that the instance decides are left out: the launcher's
// Node has them, or kubelet and cloud provider determine them. In user data they would need one more launch template for each zone and
// instance type.
func kubeletLabels(claim map[string]string) map[string]string {
	out := make(map[string]string, len(claim))
	for key, value := range claim {
		if !ofInstance(key) {
			out[key] = value
		}
	}
	return out
}

// ofInstance reports whether the launched instance decides a label.
func ofInstance(key string) bool {
	switch key {
	case corev1.LabelTopologyZone, corev1.LabelTopologyRegion, catalog.LabelZoneID, corev1.LabelInstanceTypeStable, corev1.LabelArchStable,
		corev1.LabelOSStable, corev1.LabelHostname, corev1.LabelWindowsBuild,
		corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion, corev1.LabelInstanceType, betaArch, betaOS,
		awsv1.LabelCapacityReservationID, awsv1.LabelCapacityReservationType, awsv1.LabelCapacityReservationInterruptible,
		catalog.LabelPlacementGroupID, catalog.LabelPlacementGroupPartition:
		return true
	}
	return strings.HasPrefix(key, instanceLabels)
}

// The deprecated names of architecture and operating system (k8s.io/kubernetes, pkg/kubelet/apis/well_known_labels.go).
const (
	betaArch = "beta.kubernetes.io/arch"
	betaOS   = "beta.kubernetes.io/os"
)
