package overlay

import (
	"maps"
	"slices"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// requirements are those of a rule that a NodePool's labels leave open.
type requirements struct {
	// ofType look at the labels of an instance type, ofOffering at those of an offering.
	ofType, ofOffering catalog.Requirements
}

// openFor returns the requirements on labels that the NodePool does not set, and whether those that it sets meet theirs. An instance type's
// labels are not the NodePool's: it may repeat them.
func openFor(all catalog.Requirements, labels map[string]string) (catalog.Requirements, bool) {
	open := catalog.Requirements{}
	for key, set := range all {
		value, ok := labels[key]
		switch {
		case !ok:
			open[key] = set
		case !set.Has(value):
			return nil, false
		case karpv1.WellKnownLabels.Has(key) && key != karpv1.NodePoolLabelKey && key != catalog.LabelInstanceTenancy:
			open[key] = set // The instance type or the offering must meet it too.
		}
	}
	return open, true
}

// split divides requirements by what decides their labels.
func split(open catalog.Requirements) *requirements {
	out := &requirements{ofType: catalog.Requirements{}, ofOffering: catalog.Requirements{}}
	for key, set := range open {
		switch key {
		case corev1.LabelTopologyZone, awsv1.LabelTopologyZoneID, karpv1.CapacityTypeLabelKey, catalog.LabelReservationID, catalog.LabelReservationType,
			catalog.LabelReservationInterruptible:
			out.ofOffering[key] = set
		default:
			out.ofType[key] = set
		}
	}
	return out
}

// String returns a key of the labels that are open.
func (r *requirements) String() string {
	return strings.Join(slices.Sorted(maps.Keys(r.ofType)), ",") + "|" + strings.Join(slices.Sorted(maps.Keys(r.ofOffering)), ",")
}

func met(all catalog.Requirements, label func(key string) (string, bool)) bool {
	for key, set := range all {
		value, ok := label(key)
		if !ok && !set.Absent || ok && !set.Has(value) {
			return false
		}
	}
	return true
}

// touch names an instance type by its index, and its offerings that a rule matches by theirs.
type touch struct {
	at        int
	offerings []int
}

// touches returns what the rule of that index matches. A rule matches an instance type by at least one offering.
func (v *variant) touches(rule int) []touch {
	open := v.left[rule]
	var out []touch
	for at := range v.base {
		t := &v.base[at]
		if !met(open.ofType, func(key string) (string, bool) { value, ok := t.Labels[key]; return value, ok }) {
			continue
		}
		matched := make([]int, 0, len(t.Offerings))
		for i := range t.Offerings {
			if met(open.ofOffering, func(key string) (string, bool) { return offeringLabel(&t.Offerings[i], key) }) {
				matched = append(matched, i)
			}
		}
		if len(matched) > 0 {
			out = append(out, touch{at, matched})
		}
	}
	return out
}

// offeringLabel returns the label that an offering decides, and whether its nodes have it.
func offeringLabel(o *catalog.Offering, key string) (string, bool) {
	value := ""
	switch key {
	case corev1.LabelTopologyZone:
		value = o.Zone
	case awsv1.LabelTopologyZoneID:
		value = o.ZoneID
	case karpv1.CapacityTypeLabelKey:
		value = o.CapacityType
	default:
		return o.ReservationLabel(key)
	}
	return value, value != ""
}
