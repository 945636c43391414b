package catalog

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// BareMetal reports whether instances of the type are bare metal, as the label of the size has it.
func (t *InstanceType) BareMetal() bool {
	return strings.Contains(t.Labels[LabelInstanceSize], "metal")
}

// Exotic reports whether the type is bare metal or has accelerators: Karpenter launches no such type where another one is left
// (github.com/aws/karpenter-provider-aws, ExoticInstanceTypeFilter).
func (t *InstanceType) Exotic() bool {
	accelerators := []corev1.ResourceName{ResourceNVIDIAGPU, ResourceAMDGPU, ResourceGaudi, ResourceNeuron, ResourceNeuronCore}
	return t.BareMetal() || slices.ContainsFunc(accelerators, func(name corev1.ResourceName) bool {
		q := t.Capacity[name]
		return !q.IsZero()
	})
}
