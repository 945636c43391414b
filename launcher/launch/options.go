package launch

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// maxTypes is the maximum number of instance types in one call, as in Karpenter.
const maxTypes = 60

// maxClaims is the maximum number of instances in one call, as in Karpenter.
const maxClaims = 1000

// Search is the input for choosing a claim's offerings.
type Search struct {
	// Claim that is to be launched.
	Claim *karpv1.NodeClaim
	// Types are those that its class offers.
	Types []catalog.InstanceType
	// Failed are the offerings that gave no instance; they are left out.
	Failed map[cloud.Option]cloud.OfferingFailure
	// BestEffort launches even if fewer values are left than minValues.
	BestEffort bool
}

// Choice is what to request from EC2.
type Choice struct {
	// Options are the available and acceptable offerings, cheapest first, of at most 60 instance types.
	Options []cloud.Option
	// Tenancy of the instances: default or dedicated.
	Tenancy string
	// Partition of the class's placement group; 0 leaves it to EC2, which distributes instances evenly.
	Partition int32
	// Relaxed means that minValues could not be kept.
	Relaxed bool
	// Refused are the acceptable offerings that are not available now because EC2 refused them, with what it answered.
	Refused []cloud.OfferingFailure
}

// Options returns the offerings in which a claim may be launched. It returns an error if the claim's requirements cannot be parsed, and a
// MinValuesError, with the refused offerings.
func (s Search) Options() (Choice, error) {
	reqs, err := record.Requirements(s.Claim)
	if err != nil {
		return Choice{}, err
	}
	names := record.InstanceTypes(s.Claim)
	byName := map[string]catalog.InstanceType{}
	var out []cloud.Option
	var refused []cloud.OfferingFailure
	for _, t := range s.Types {
		if !s.suits(t, names, reqs) {
			continue
		}
		byName[t.Name] = t
		for _, o := range t.Offerings {
			option := s.option(t, o)
			if _, tried := s.Failed[key(option)]; tried || !admits(reqs, o) {
				continue
			}
			if o.Available {
				out = append(out, option)
			} else {
				refused = append(refused, refusedOffering(option, o.Refusal)...)
			}
		}
	}
	if len(names) == 0 && !hasMinValues(s.Claim) {
		out = withoutExotic(out, byName)
	}
	out = withoutExpensiveSpot(out)
	slices.SortFunc(out, func(a, b cloud.Option) int {
		return cmp.Or(cmp.Compare(a.Price, b.Price), cmp.Compare(a.InstanceType, b.InstanceType), cmp.Compare(a.Zone, b.Zone),
			cmp.Compare(a.CapacityType, b.CapacityType), cmp.Compare(a.Reservation.ID, b.Reservation.ID))
	})
	kept, short := keepValues(s.Claim, out, byName)
	if len(out) > 0 && short != nil && !s.BestEffort {
		return Choice{Refused: refused}, short
	}
	out = slices.DeleteFunc(out, func(o cloud.Option) bool { return !kept[o.InstanceType] })
	return Choice{Options: out, Tenancy: catalog.Tenancy(reqs), Partition: partition(reqs, s.Types), Relaxed: short != nil && len(out) > 0, Refused: refused}, nil
}

// suits reports whether a claim may be launched as an instance type. A claim that slipway did not plan names none: it may be any type with as much
// of each resource as it requests.
func (s Search) suits(t catalog.InstanceType, names []string, reqs catalog.Requirements) bool {
	suits := slices.Contains(names, t.Name)
	if len(names) == 0 {
		suits = holds(t.Allocatable, s.Claim.Spec.Resources.Requests)
	}
	return suits && allowed(reqs, corev1.LabelInstanceTypeStable, t.Name) && offers(reqs, t.Labels)
}

// holds reports whether a node has what is requested of each resource.
func holds(allocatable, requests corev1.ResourceList) bool {
	for name, q := range requests {
		if q.Cmp(allocatable[name]) > 0 {
			return false
		}
	}
	return true
}

// partition returns the partition of the class's placement group that requirements select: the lowest, as in Karpenter, or 0 if they allow all.
func partition(reqs catalog.Requirements, types []catalog.InstanceType) int32 {
	set, restricted := reqs[catalog.LabelPlacementGroupPartition]
	if !restricted || len(types) == 0 {
		return 0
	}
	all := catalog.PartitionNames(types[0].Partitions)
	first := slices.IndexFunc(all, set.Has)
	if first < 0 || !slices.ContainsFunc(all, func(name string) bool { return !set.Has(name) }) {
		return 0
	}
	return int32(first + 1)
}

func (s Search) option(t catalog.InstanceType, o catalog.Offering) cloud.Option {
	out := cloud.Option{
		InstanceType: t.Name, Zone: o.Zone, CapacityType: o.CapacityType, Price: o.Price, MaxPods: t.Capacity.Pods().Value(),
		Reservation: cloud.Reservation{ID: o.ReservationID, Type: o.ReservationType, Interruptible: o.Interruptible}, PlacementGroup: t.Labels[catalog.LabelPlacementGroupID],
	}
	if _, asks := s.Claim.Spec.Resources.Requests[awsv1.ResourceEFA]; asks {
		n := t.Capacity[awsv1.ResourceEFA]
		out.EFAs = n.Value()
	}
	return out
}

// refusedOffering returns the failure of an offering that EC2 refused a moment ago and that is not tried yet again; nothing if EC2's answer
// is not known.
func refusedOffering(o cloud.Option, r ec2error.Refusal) []cloud.OfferingFailure {
	if r.Code == "" {
		return nil
	}
	reason := cmp.Or(r.Code.Reason(), ec2error.ReasonInstanceTypeRefused) // The other codes are those of types that EC2 refuses to the class.
	return []cloud.OfferingFailure{{Option: o, Reason: r.Code, Condition: reason, Since: r.Since, Attempts: r.Attempts}}
}

// admits reports whether the requirements allow an offering.
func admits(reqs catalog.Requirements, o catalog.Offering) bool {
	for _, label := range catalog.ReservationLabelKeys() {
		set, restricted := reqs[label]
		value, ok := o.ReservationLabel(label)
		if restricted && (ok && !set.Has(value) || !ok && !set.Absent) {
			return false
		}
	}
	return allowed(reqs, corev1.LabelTopologyZone, o.Zone) && allowed(reqs, catalog.LabelZoneID, o.ZoneID) &&
		allowed(reqs, karpv1.CapacityTypeLabelKey, o.CapacityType)
}

// withoutExpensiveSpot leaves out spot offerings that cost more than the cheapest on-demand one: EC2 ranks spot pools by spare capacity first,
// and would buy them. A capacity reservation is bought before both.
func withoutExpensiveSpot(options []cloud.Option) []cloud.Option {
	cheapest := math.Inf(1)
	for _, o := range options {
		if t := catalog.CapacityTypeOf(o.CapacityType); !t.Interruptible && !t.Counted {
			cheapest = min(cheapest, o.Price)
		}
	}
	return slices.DeleteFunc(options, func(o cloud.Option) bool {
		return catalog.CapacityTypeOf(o.CapacityType).Interruptible && o.Price > cheapest
	})
}

// withoutExotic leaves out bare metal and instance types with accelerators where others are left, as Karpenter does. Capacity reservations are bought
// before all else: other ones count there alone.
func withoutExotic(options []cloud.Option, types map[string]catalog.InstanceType) []cloud.Option {
	exotic := func(o cloud.Option) bool {
		t := types[o.InstanceType]
		return t.Exotic()
	}
	reserved := func(o cloud.Option) bool { return catalog.CapacityTypeOf(o.CapacityType).Counted }
	anyOther, otherReserved := false, false
	for _, o := range options {
		if !exotic(o) {
			anyOther, otherReserved = true, otherReserved || reserved(o)
		}
	}
	return slices.DeleteFunc(options, func(o cloud.Option) bool {
		return exotic(o) && (otherReserved || anyOther && !reserved(o))
	})
}

// hasMinValues reports whether a claim has a requirement with minValues.
func hasMinValues(claim *karpv1.NodeClaim) bool {
	return slices.ContainsFunc(claim.Spec.Requirements, func(r karpv1.NodeSelectorRequirementWithMinValues) bool { return r.MinValues != nil })
}

// instanceLabels is the prefix of the labels that the instance type decides; a type without such a label lacks the property.
const instanceLabels = "karpenter.k8s.aws/instance-"

// offers reports whether an instance type meets a claim's requirements: a claim that slipway did not plan names no types. Labels of other
// kinds come from the NodePool and the offering.
func offers(reqs catalog.Requirements, labels map[string]string) bool {
	for label, set := range reqs {
		value, ok := labels[label]
		if label == catalog.LabelInstanceTenancy {
			value, ok = catalog.Tenancy(reqs), true // Every type comes in both tenancies.
		}
		if ok && !set.Has(value) || !ok && strings.HasPrefix(label, instanceLabels) && !set.Absent {
			return false
		}
	}
	return true
}

// key returns an option without the fields that may change between two attempts.
func key(o cloud.Option) cloud.Option {
	return cloud.Option{InstanceType: o.InstanceType, Zone: o.Zone, CapacityType: o.CapacityType, Reservation: cloud.Reservation{ID: o.Reservation.ID}}
}

func allowed(reqs catalog.Requirements, label, value string) bool {
	set, restricted := reqs[label]
	return !restricted || set.Has(value)
}

// groups groups claims that are equal for EC2, each group in the order of the claims' names.
func groups(claims []*karpv1.NodeClaim) [][]*karpv1.NodeClaim {
	byKey := map[string][]*karpv1.NodeClaim{}
	for _, c := range claims {
		k := groupKey(c)
		byKey[k] = append(byKey[k], c)
	}
	out := make([][]*karpv1.NodeClaim, 0, len(byKey))
	for _, group := range byKey {
		sortByName(group)
		if group[0].Annotations[catalog.LaunchAnnotation] != "" {
			out = append(out, group) // A call of an earlier process is handled as a whole.
			continue
		}
		out = append(out, slices.Collect(slices.Chunk(group, maxClaims))...)
	}
	slices.SortFunc(out, func(a, b []*karpv1.NodeClaim) int { return cmp.Compare(a[0].Name, b[0].Name) })
	return out
}

func sortByName(claims []*karpv1.NodeClaim) {
	slices.SortFunc(claims, func(a, b *karpv1.NodeClaim) int { return cmp.Compare(a.Name, b.Name) })
}

// groupKey returns a key of all fields that matter to EC2, and the launch ID: claims of an earlier process's call must form the same group
// again. What is requested matters for a claim that names no instance types.
func groupKey(c *karpv1.NodeClaim) string {
	spec := c.Spec.DeepCopy()
	_, efa := spec.Resources.Requests[awsv1.ResourceEFA]
	_, enclaves := spec.Resources.Requests[awsv1.ResourceNIPSlots]
	if len(record.InstanceTypes(c)) > 0 {
		spec.Resources = karpv1.ResourceRequirements{}
	}
	text, err := json.Marshal(struct {
		Labels                          map[string]string
		Spec                            *karpv1.NodeClaimSpec
		Types, Launch                   string
		EFA, Enclaves, Standby, Relaxed bool
	}{
		c.Labels, spec, c.Annotations[catalog.InstanceTypesAnnotation], c.Annotations[catalog.LaunchAnnotation], efa, enclaves, record.StandbyOf(c).Waits(),
		c.Annotations[karpv1.NodeClaimMinValuesRelaxedAnnotationKey] == "true",
	})
	if err != nil {
		return c.Name // A group of its own; the only loss is a shared call.
	}
	return string(text)
}
