package clusterview

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

const (
	// LabelCapacityType is Karpenter's label for spot, on-demand and reserved nodes.
	LabelCapacityType = "karpenter.sh/capacity-type"
	// LabelEBSZone is the EBS driver's own zone key, in the node affinity of its volumes.
	LabelEBSZone = "topology.ebs.csi.aws.com/zone"
	// LimitOfNodes is the entry of a NodePool's limits that counts nodes.
	LimitOfNodes corev1.ResourceName = "nodes"
)

// VirtualNode returns a Node that does not exist yet. Its hostname is its own name, which no other node has. The labels become
// the Node's own and are changed.
func VirtualNode(name string, labels map[string]string, taints []corev1.Taint, allocatable corev1.ResourceList) *corev1.Node {
	if labels == nil {
		labels = map[string]string{}
	}
	labels[corev1.LabelHostname] = name
	// A node gets these labels while it joins; pods may select them.
	labels["karpenter.sh/registered"], labels["karpenter.sh/initialized"] = "true", "true"
	if labels[corev1.LabelOSStable] == "" {
		labels[corev1.LabelOSStable] = "linux"
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       corev1.NodeSpec{Taints: taints},
		Status: corev1.NodeStatus{
			Allocatable: allocatable, Capacity: allocatable,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
			// The scheduler looks at them alone where its feature gate is on.
			DeclaredFeatures: declaredFeatures(kubeletMinor),
		},
	}
}

// OfferingLabels returns the labels of a node that the NodePool launches as the offering.
func OfferingLabels(pool catalog.NodePool, t catalog.InstanceType, o catalog.Offering) map[string]string {
	labels := maps.Clone(t.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	maps.Copy(labels, pool.Labels)
	labels[corev1.LabelTopologyZone] = o.Zone
	labels[LabelCapacityType] = o.CapacityType
	labels["karpenter.sh/nodepool"] = pool.Name
	labels[catalog.LabelNodeClass] = pool.NodeClass
	if o.ZoneID != "" {
		labels[catalog.LabelZoneID] = o.ZoneID
	}
	for _, key := range catalog.ReservationLabelKeys() {
		if value, ok := o.ReservationLabel(key); ok {
			labels[key] = value
		}
	}
	if labels[corev1.LabelTopologyRegion] == "" {
		labels[corev1.LabelTopologyRegion] = plan.RegionOf(o.Zone)
	}
	if labels[corev1.LabelOSStable] == "" {
		labels[corev1.LabelOSStable] = string(corev1.Linux)
	}
	addAliases(labels)
	return labels
}

// ClaimLabels returns the labels of the claim's node if its expected offering is launched.
func ClaimLabels(c *plan.Claim) map[string]string {
	out := maps.Clone(c.Labels)
	if out == nil {
		out = map[string]string{}
	}
	for key, value := range map[string]string{
		corev1.LabelTopologyZone:       c.Expected.Zone,
		corev1.LabelInstanceTypeStable: c.Expected.InstanceType,
		LabelCapacityType:              c.Expected.CapacityType,
		"karpenter.sh/nodepool":        c.NodePool,
	} {
		if out[key] == "" && value != "" {
			out[key] = value
		}
	}
	addAliases(out)
	return out
}

// addAliases adds the deprecated and driver-specific names of labels. Some pods and volumes select nodes by them.
func addAliases(labels map[string]string) {
	for _, a := range [...]struct{ normal, alias string }{
		{corev1.LabelTopologyZone, corev1.LabelFailureDomainBetaZone},
		{corev1.LabelTopologyZone, LabelEBSZone},
		{corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaRegion},
		{corev1.LabelArchStable, "beta.kubernetes.io/arch"},
		{corev1.LabelOSStable, "beta.kubernetes.io/os"},
		{corev1.LabelInstanceTypeStable, corev1.LabelInstanceType},
	} {
		if value, ok := labels[a.normal]; ok && labels[a.alias] == "" {
			labels[a.alias] = value
		}
	}
}
