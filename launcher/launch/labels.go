package launch

import (
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
)

// kubeletLabels are those labels of a claim that its kubelet is told to register with. What the instance decides is left out: the
// Node that the launcher makes has it, or the kubelet and the cloud provider find it out, and user data that named it would be one
// more launch template for each zone and instance type.
func kubeletLabels(claim map[string]string) map[string]string {
	out := make(map[string]string, len(claim))
	for key, value := range claim {
		if !ofInstance(key) {
			out[key] = value
		}
	}
	return out
}

// ofInstance says that the instance which EC2 gives decides a label.
func ofInstance(key string) bool {
	switch key {
	case corev1.LabelTopologyZone, corev1.LabelTopologyRegion, zoneIDLabel, corev1.LabelInstanceTypeStable, corev1.LabelArchStable,
		corev1.LabelOSStable, corev1.LabelHostname, corev1.LabelWindowsBuild,
		corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion, corev1.LabelInstanceType, betaArch, betaOS,
		awsv1.LabelCapacityReservationID, awsv1.LabelCapacityReservationType, awsv1.LabelCapacityReservationInterruptible:
		return true
	}
	return strings.HasPrefix(key, instanceLabels)
}

// The deprecated names of architecture and operating system (k8s.io/kubernetes, pkg/kubelet/apis/well_known_labels.go).
const (
	betaArch = "beta.kubernetes.io/arch"
	betaOS   = "beta.kubernetes.io/os"
)
