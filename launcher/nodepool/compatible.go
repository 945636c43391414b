package nodepool

import (
	"fmt"
	"maps"
	"slices"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/template"
)

// ReasonNoCompatibleInstanceTypes is the reason of ValidationSucceeded, and of Karpenter's Event, for a NodePool from which no node can be launched.
const ReasonNoCompatibleInstanceTypes = "NoCompatibleInstanceTypes"

// Incompatible returns why none of the instance types meets the pool's requirements, or an empty string if one does. Labels that neither the
// instance type nor the offering decides are left out: nodes get them from the NodePool. It does not matter whether EC2 has capacity at present.
func Incompatible(pool *karpv1.NodePool, types []catalog.InstanceType) string {
	class := pool.Spec.Template.Spec.NodeClassRef.Name
	if len(types) == 0 {
		return fmt.Sprintf("EC2NodeClass %s has no instance type", class)
	}
	requirements, err := catalog.NewRequirements(decided(pool))
	if err != nil {
		return "" // The validation reports it.
	}
	ofType, ofOffering := maps.Clone(requirements), catalog.Requirements{}
	for _, key := range []string{corev1.LabelTopologyZone, awsv1.LabelTopologyZoneID} {
		if set, ok := requirements[key]; ok {
			ofOffering[key] = set
			delete(ofType, key)
		}
	}
	if set, ok := requirements[catalog.LabelPlacementGroupPartition]; ok && slices.ContainsFunc(catalog.PartitionNames(types[0].Partitions), set.Has) {
		delete(ofType, catalog.LabelPlacementGroupPartition) // The placement group is the class's: all types have its partitions.
	}
	if anyMatches(types, ofType, ofOffering) {
		return ""
	}
	for _, key := range slices.Sorted(maps.Keys(requirements)) {
		values := valuesOf(types, key)
		if !slices.ContainsFunc(values, requirements[key].Has) && (len(values) > 0 || !requirements[key].Absent) {
			have := "no such label"
			if len(values) > 0 {
				have = catalog.Offered(requirements[key], values)
			}
			return fmt.Sprintf("spec.template.spec.requirements: %s %s: the instance types of EC2NodeClass %s have %s", key, requirements[key], class, have)
		}
	}
	return fmt.Sprintf("spec.template.spec.requirements: no instance type of EC2NodeClass %s meets all of them; each alone is met", class)
}

// anyMatches reports whether an instance type has labels that ofType allows, and an offering with labels that ofOffering allows.
func anyMatches(types []catalog.InstanceType, ofType, ofOffering catalog.Requirements) bool {
	for i := range types {
		if _, ok := ofType.Match(types[i].Labels); !ok {
			continue
		}
		for _, labels := range offeringLabels(&types[i]) {
			if _, ok := ofOffering.Match(labels); ok {
				return true
			}
		}
	}
	return false
}

// decided returns the pool's requirements on labels that the offering of a node decides.
func decided(pool *karpv1.NodePool) []catalog.Requirement {
	var out []catalog.Requirement
	for _, r := range template.Needs(pool) {
		key := catalog.NormalKey(r.Key)
		switch key {
		case corev1.LabelTopologyRegion, catalog.LabelInstanceTenancy, karpv1.NodePoolLabelKey, corev1.LabelHostname:
			continue // The same for all types, or up to the NodePool.
		case karpv1.CapacityTypeLabelKey, awsv1.LabelCapacityReservationID, awsv1.LabelCapacityReservationType, awsv1.LabelCapacityReservationInterruptible:
			continue // Reservations begin and end at any time. The validation refuses what is no capacity type.
		}
		if karpv1.WellKnownLabels.Has(key) {
			out = append(out, catalog.Requirement{Key: key, Operator: r.Operator, Values: r.Values})
		}
	}
	return out
}

// offeringLabels returns the labels that the type's offerings decide, of each.
func offeringLabels(t *catalog.InstanceType) []map[string]string {
	out := make([]map[string]string, len(t.Offerings))
	for i, o := range t.Offerings {
		out[i] = map[string]string{corev1.LabelTopologyZone: o.Zone, awsv1.LabelTopologyZoneID: o.ZoneID}
	}
	return out
}

// valuesOf returns the values of a label over the types and their offerings, sorted.
func valuesOf(types []catalog.InstanceType, key string) []string {
	found := map[string]bool{}
	if key == catalog.LabelPlacementGroupPartition && len(types) > 0 {
		return catalog.PartitionNames(types[0].Partitions)
	}
	for i := range types {
		for _, labels := range append(offeringLabels(&types[i]), types[i].Labels) {
			if value, ok := labels[key]; ok {
				found[value] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}
