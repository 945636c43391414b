package catalog

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
)

// Billed is nodes that AWS bills alike.
type Billed struct {
	// InstanceType and Zone of the instances.
	InstanceType, Zone string
}

// labelEKSCapacityType is what EKS writes on the nodes of managed node groups.
const labelEKSCapacityType = "eks.amazonaws.com/capacityType"

// BilledOnDemand returns what a node with these labels is billed as, and false for a node that Savings Plans and Reserved Instances do not pay
// for or may not: spot instances, capacity blocks, dedicated tenancy, Windows, and nodes whose labels do not say how they were bought. Instances in
// a capacity reservation are billed on demand.
func BilledOnDemand(labels map[string]string) (Billed, bool) {
	out := Billed{InstanceType: labels[corev1.LabelInstanceTypeStable], Zone: labels[corev1.LabelTopologyZone]}
	bought := labels[labelCapacityType]
	if bought == "" {
		bought = strings.ReplaceAll(strings.ToLower(labels[labelEKSCapacityType]), "_", "-")
	}
	switch {
	case out.InstanceType == "" || !CapacityTypeOf(bought).Committed || labels[labelReservationType] == "capacity-block":
		return out, false
	case labels[LabelInstanceTenancy] == TenancyDedicated || labels[corev1.LabelOSStable] == string(corev1.Windows):
		return out, false
	}
	return out, true
}

const (
	labelCapacityType    = "karpenter.sh/capacity-type"
	labelReservationType = "karpenter.k8s.aws/capacity-reservation-type"
)

// Coverable reports whether Savings Plans and Reserved Instances may pay for nodes of the offering. Reserved capacity has its price already.
func (o *Offering) Coverable() bool {
	t := CapacityTypeOf(o.CapacityType)
	return t.Committed && !t.Counted
}

// Uses returns nodes as commitments see them, sorted, with their prices on demand. Nodes whose price is not known are left out.
func (s *State) Uses(counts map[Billed]int) []commitment.Use {
	prices := map[Billed]float64{}
	names := map[string]bool{}
	for b := range counts {
		names[b.InstanceType] = true
	}
	for _, types := range s.InstanceTypes {
		for i := range types {
			t := &types[i]
			if !names[t.Name] {
				continue
			}
			for _, o := range t.Offerings {
				if o.Coverable() {
					prices[Billed{t.Name, o.Zone}] = o.Price - t.Charges.Fixed()
				}
			}
		}
	}
	var out []commitment.Use
	for b, n := range counts {
		if price := prices[b]; price > 0 && n > 0 {
			out = append(out, commitment.Use{Name: b.InstanceType + "/" + b.Zone, Count: n, InstanceType: b.InstanceType, Zone: b.Zone, OnDemand: price})
		}
	}
	slices.SortFunc(out, func(a, b commitment.Use) int {
		return cmp.Or(strings.Compare(a.InstanceType, b.InstanceType), strings.Compare(a.Zone, b.Zone))
	})
	return out
}

// ExpectedLabels returns the labels with those of the offering that the node is expected to be, or is.
func (n InFlightNode) ExpectedLabels(labels map[string]string) map[string]string {
	if n.InstanceType == "" {
		return labels
	}
	out := map[string]string{}
	maps.Copy(out, labels)
	out[corev1.LabelInstanceTypeStable], out[corev1.LabelTopologyZone], out[labelCapacityType] = n.InstanceType, n.Zone, n.CapacityType
	return out
}
