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
	case out.InstanceType == "" || !CapacityTypeOf(bought).Committed || labels[LabelReservationType] == ReservationTypeBlock:
		return out, false
	case labels[LabelInstanceTenancy] == TenancyDedicated || labels[corev1.LabelOSStable] == string(corev1.Windows):
		return out, false
	}
	return out, true
}

const labelCapacityType = "karpenter.sh/capacity-type"

// Coverable reports whether Savings Plans and Reserved Instances may pay for nodes of the offering. Reserved capacity has its price already, and
// so has what a NodeOverlay prices.
func (o *Offering) Coverable() bool {
	t := CapacityTypeOf(o.CapacityType)
	return t.Committed && !t.Counted && !o.Overlaid
}

// Uncommitted reports whether the NodePool may launch nodes that commitments do not pay for, such as spot nodes.
func (p NodePool) Uncommitted() bool {
	return p.launches(func(t CapacityType) bool { return !t.Committed })
}

// OnDemand reports whether the NodePool may launch nodes that commitments pay for.
func (p NodePool) OnDemand() bool {
	return p.launches(func(t CapacityType) bool { return t.Committed && !t.Counted })
}

// launches reports whether the NodePool may launch a capacity type that is wanted.
func (p NodePool) launches(want func(CapacityType) bool) bool {
	needs, err := NewRequirements(p.Requirements)
	if err != nil {
		return false
	}
	set, limited := needs[labelCapacityType]
	for _, t := range CapacityTypes() {
		if want(t) && (!limited || set.Has(t.Name)) {
			return true
		}
	}
	return false
}

// Uses returns nodes as commitments see them, sorted, with their prices on demand. Nodes whose price is not known are left out.
func (s *State) Uses(counts map[Billed]int) []commitment.Use {
	names := map[string]bool{}
	for b := range counts {
		names[b.InstanceType] = true
	}
	prices := s.onDemand(names)
	var out []commitment.Use
	for b, n := range counts {
		price, ok := prices[b]
		if !ok { // No EC2NodeClass has a subnet there. EC2 has one price for the zones of a region.
			price = prices[Billed{InstanceType: b.InstanceType}]
		}
		if price > 0 && n > 0 {
			out = append(out, commitment.Use{Name: b.InstanceType + "/" + b.Zone, Count: n, InstanceType: b.InstanceType, Zone: b.Zone, OnDemand: price})
		}
	}
	slices.SortFunc(out, func(a, b commitment.Use) int {
		return cmp.Or(strings.Compare(a.InstanceType, b.InstanceType), strings.Compare(a.Zone, b.Zone))
	})
	return out
}

// onDemand returns the prices of the instance types on demand by zone, and under no zone the lowest of each. Of lists that differ it is the lowest: Windows
// and dedicated tenancy have higher ones.
func (s *State) onDemand(names map[string]bool) map[Billed]float64 {
	prices := map[Billed]float64{}
	for _, types := range s.InstanceTypes {
		for i := range types {
			t := &types[i]
			if !names[t.Name] {
				continue
			}
			for _, o := range t.Offerings {
				price := o.Price - t.Charges.Fixed()
				if !o.Coverable() || price <= 0 {
					continue
				}
				for _, at := range []Billed{{t.Name, o.Zone}, {t.Name, ""}} {
					if known, ok := prices[at]; !ok || price < known {
						prices[at] = price
					}
				}
			}
		}
	}
	return prices
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

// The units of commitments.
const (
	USDPerHour      = "USD/h"
	normalizedUnits = "normalized units"
)

// CommitmentUse is how much of a commitment is used.
type CommitmentUse struct {
	// ID and Kind of the commitment.
	ID   string          `json:"id"`
	Kind commitment.Kind `json:"kind"`
	// Amount is the cluster's share of it, Left what no node uses, both in Unit.
	Amount float64 `json:"amount"`
	Left   float64 `json:"left"`
	// Share of the commitment that the cluster may use, 0 to 1; 0 for all of it.
	Share float64 `json:"share,omitempty"`
	// Unit is USD/h, or normalized units or instances of Reserved Instances.
	Unit string `json:"unit"`
}

// Used returns the share that is used, 0 to 1; 1 of a commitment of which the cluster has no share.
func (u CommitmentUse) Used() float64 {
	if u.Amount <= 0 {
		return 1
	}
	return 1 - u.Left/u.Amount
}

// CommitmentUses returns how much the nodes use of each commitment, in the order of the commitments.
func (s *State) CommitmentUses(counts map[Billed]int) []CommitmentUse {
	if len(s.Commitments) == 0 {
		return nil
	}
	left := commitment.Apply(s.Commitments, s.Uses(counts)).Left
	out := make([]CommitmentUse, 0, len(s.Commitments))
	for i := range s.Commitments {
		c := &s.Commitments[i]
		u := CommitmentUse{ID: c.ID, Kind: c.Kind, Amount: Micro(c.Amount()), Left: Micro(left[i]), Unit: USDPerHour}
		if c.Share < 1 {
			u.Share = Micro(c.Share)
		}
		if c.Kind == commitment.ReservedInstances {
			u.Unit = normalizedUnits
			if !c.Flexible() {
				u.Unit = "instances"
			}
		}
		out = append(out, u)
	}
	return out
}
