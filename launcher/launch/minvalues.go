package launch

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
)

// prioritizedAnnotation on an EC2NodeClass, with the value true, makes EC2 try the instance types in the order of slipway's prices:
// on-demand prioritized, spot capacity-optimized-prioritized.
const prioritizedAnnotation = "slipway.dev/prioritized"

// MinValuesError means that too few values of a requirement are left.
type MinValuesError struct {
	// Key of the requirement.
	Key string
	// Want is its minValues, Have the number of values left.
	Want, Have int
}

// Error returns a text that names the requirement.
func (e *MinValuesError) Error() string {
	return fmt.Sprintf("minValues of requirement %s: available are %d of at least %d", e.Key, e.Have, e.Want)
}

// keepValues chooses the instance types to request: the cheapest 60, but with minValues values for every requirement that has minValues, as
// far as they exist. It returns the error of the first requirement that cannot be met. Options are sorted by price, cheapest first.
func keepValues(claim *karpv1.NodeClaim, options []cloud.Option, types map[string]catalog.InstanceType) (map[string]bool, *MinValuesError) {
	kept := map[string]bool{}
	var short *MinValuesError
	for _, r := range claim.Spec.Requirements {
		if r.MinValues == nil {
			continue
		}
		seen := map[string]bool{}
		for _, o := range options {
			value := valueOf(r.Key, o, types[o.InstanceType])
			if value == "" || seen[value] || len(seen) >= *r.MinValues || !kept[o.InstanceType] && len(kept) >= maxTypes {
				continue
			}
			seen[value] = true
			kept[o.InstanceType] = true
		}
		if len(seen) < *r.MinValues && short == nil {
			short = &MinValuesError{Key: r.Key, Want: *r.MinValues, Have: len(seen)}
		}
	}
	for _, o := range options {
		if len(kept) < maxTypes {
			kept[o.InstanceType] = true
		}
	}
	return kept, short
}

// valueOf returns the value that an option has for a requirement's key.
func valueOf(key string, o cloud.Option, t catalog.InstanceType) string {
	switch key {
	case corev1.LabelInstanceTypeStable:
		return o.InstanceType
	case corev1.LabelTopologyZone:
		return o.Zone
	case karpv1.CapacityTypeLabelKey:
		return o.CapacityType
	case catalog.LabelZoneID:
		return zoneID(t, o.Zone)
	}
	return t.Labels[key]
}

// zoneID returns the ID of a zone in which the type is offered; empty if it is not known.
func zoneID(t catalog.InstanceType, zone string) string {
	for _, o := range t.Offerings {
		if o.Zone == zone {
			return o.ZoneID
		}
	}
	return ""
}
