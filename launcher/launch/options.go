package launch

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// maxTypes is how many instance types one call names at most: what Karpenter sends.
const maxTypes = 60

// maxClaims is how many instances one call asks for at most: what Karpenter merges.
const maxClaims = 1000

// Search is what a claim may be launched as, looked for.
type Search struct {
	// Claim that is to be launched.
	Claim *karpv1.NodeClaim
	// Types that its class offers.
	Types []catalog.InstanceType
	// Failed are the offerings that gave nothing; they are left out.
	Failed map[cloud.Option]cloud.OfferingFailure
	// BestEffort launches although fewer values are left than minValues asks for.
	BestEffort bool
}

// Choice is what to ask EC2 for.
type Choice struct {
	// Options are the available offerings that will do, cheapest first, of at most 60 instance types.
	Options []cloud.Option
	// Tenancy of the instances: default or dedicated.
	Tenancy string
	// Relaxed says that minValues could not be kept.
	Relaxed bool
}

// Options finds the offerings that a claim may be launched in. It fails where the claim's requirements cannot be read, and
// with a MinValuesError.
func (s Search) Options() (Choice, error) {
	reqs, err := record.Requirements(s.Claim)
	if err != nil {
		return Choice{}, err
	}
	names := record.InstanceTypes(s.Claim)
	byName := map[string]catalog.InstanceType{}
	var out []cloud.Option
	for _, t := range s.Types {
		if len(names) > 0 && !slices.Contains(names, t.Name) || !allowed(reqs, corev1.LabelInstanceTypeStable, t.Name) || !offers(reqs, t.Labels) {
			continue
		}
		byName[t.Name] = t
		for _, o := range t.Offerings {
			option := s.option(t, o)
			_, tried := s.Failed[key(option)]
			if o.Available && !tried && admits(reqs, o) {
				out = append(out, option)
			}
		}
	}
	out = withoutDearSpot(out)
	slices.SortFunc(out, func(a, b cloud.Option) int {
		return cmp.Or(cmp.Compare(a.Price, b.Price), cmp.Compare(a.InstanceType, b.InstanceType), cmp.Compare(a.Zone, b.Zone),
			cmp.Compare(a.CapacityType, b.CapacityType), cmp.Compare(a.Reservation.ID, b.Reservation.ID))
	})
	kept, short := keepValues(s.Claim, out, byName)
	if len(out) > 0 && short != nil && !s.BestEffort {
		return Choice{}, short
	}
	out = slices.DeleteFunc(out, func(o cloud.Option) bool { return !kept[o.InstanceType] })
	return Choice{Options: out, Tenancy: catalog.Tenancy(reqs), Relaxed: short != nil && len(out) > 0}, nil
}

func (s Search) option(t catalog.InstanceType, o catalog.Offering) cloud.Option {
	out := cloud.Option{
		InstanceType: t.Name, Zone: o.Zone, CapacityType: o.CapacityType, Price: o.Price, MaxPods: t.Capacity.Pods().Value(),
		Reservation: cloud.Reservation{ID: o.ReservationID, Type: o.ReservationType},
	}
	if _, asks := s.Claim.Spec.Resources.Requests[awsv1.ResourceEFA]; asks {
		n := t.Capacity[awsv1.ResourceEFA]
		out.EFAs = n.Value()
	}
	return out
}

// admits says that the requirements leave an offering.
func admits(reqs catalog.Requirements, o catalog.Offering) bool {
	if o.CapacityType == karpv1.CapacityTypeReserved && (!allowed(reqs, awsv1.LabelCapacityReservationID, o.ReservationID) ||
		!allowed(reqs, awsv1.LabelCapacityReservationType, o.ReservationType)) {
		return false
	}
	return allowed(reqs, corev1.LabelTopologyZone, o.Zone) && allowed(reqs, zoneIDLabel, o.ZoneID) &&
		allowed(reqs, karpv1.CapacityTypeLabelKey, o.CapacityType)
}

// withoutDearSpot leaves out spot offerings that cost more than the cheapest on-demand one: EC2 looks at spare capacity first,
// and would buy them.
func withoutDearSpot(options []cloud.Option) []cloud.Option {
	cheapest := math.Inf(1)
	for _, o := range options {
		if o.CapacityType == karpv1.CapacityTypeOnDemand {
			cheapest = min(cheapest, o.Price)
		}
	}
	return slices.DeleteFunc(options, func(o cloud.Option) bool { return o.CapacityType == karpv1.CapacityTypeSpot && o.Price > cheapest })
}

// zoneIDLabel is the label that EKS gives the zone's id.
const zoneIDLabel = "topology.k8s.aws/zone-id"

// instanceLabels is the prefix of the labels that the instance type decides; a type without one does not have the property.
const instanceLabels = "karpenter.k8s.aws/instance-"

// offers compares what a claim requires of its instance type: a claim that slipway did not plan names no types. Labels of
// other kinds come from the NodePool and the offering.
func offers(reqs catalog.Requirements, labels map[string]string) bool {
	for label, set := range reqs {
		value, ok := labels[label]
		if label == catalog.LabelInstanceTenancy {
			value, ok = catalog.Tenancy(reqs), true // Every type comes in both.
		}
		if ok && !set.Has(value) || !ok && strings.HasPrefix(label, instanceLabels) && !set.Absent {
			return false
		}
	}
	return true
}

// key is an option without what may change between two attempts.
func key(o cloud.Option) cloud.Option {
	return cloud.Option{InstanceType: o.InstanceType, Zone: o.Zone, CapacityType: o.CapacityType, Reservation: cloud.Reservation{ID: o.Reservation.ID}}
}

func allowed(reqs catalog.Requirements, label, value string) bool {
	set, restricted := reqs[label]
	return !restricted || set.Has(value)
}

// groups puts claims together that EC2 cannot tell apart, each group in the order of the claims' names.
func groups(claims []*karpv1.NodeClaim) [][]*karpv1.NodeClaim {
	byKey := map[string][]*karpv1.NodeClaim{}
	for _, c := range claims {
		k := groupKey(c)
		byKey[k] = append(byKey[k], c)
	}
	out := make([][]*karpv1.NodeClaim, 0, len(byKey))
	for _, group := range byKey {
		slices.SortFunc(group, func(a, b *karpv1.NodeClaim) int { return cmp.Compare(a.Name, b.Name) })
		if group[0].Annotations[catalog.LaunchAnnotation] != "" {
			out = append(out, group) // A call of an earlier process is looked after as a whole.
			continue
		}
		out = append(out, slices.Collect(slices.Chunk(group, maxClaims))...)
	}
	slices.SortFunc(out, func(a, b []*karpv1.NodeClaim) int { return cmp.Compare(a[0].Name, b[0].Name) })
	return out
}

// groupKey is all that matters to EC2, and the launch id: what an earlier process began must be found again as it was.
func groupKey(c *karpv1.NodeClaim) string {
	spec := c.Spec.DeepCopy()
	_, efa := spec.Resources.Requests[awsv1.ResourceEFA]
	spec.Resources = karpv1.ResourceRequirements{}
	text, err := json.Marshal(struct {
		Labels        map[string]string
		Spec          *karpv1.NodeClaimSpec
		Types, Launch string
		EFA           bool
	}{c.Labels, spec, c.Annotations[catalog.InstanceTypesAnnotation], c.Annotations[catalog.LaunchAnnotation], efa})
	if err != nil {
		return c.Name // A group of its own: nothing is lost but a shared call.
	}
	return string(text)
}

// explain tells the failures of all offerings that were tried, and of those that more capacity would not mend what would.
func explain(failed map[cloud.Option]cloud.OfferingFailure) string {
	if len(failed) == 0 {
		return "none of its instance types is offered and available in its zones and capacity types"
	}
	list := make([]string, 0, len(failed))
	advice := map[string]bool{}
	for o, f := range failed {
		list = append(list, fmt.Sprintf("%s %s in %s: %s", o.InstanceType, o.CapacityType, o.Zone, f.Reason))
		if f.Cause != cloud.CauseCapacity && f.Cause != "" {
			advice[f.Message] = true
		}
	}
	slices.Sort(list)
	const most = 5
	if n := len(list); n > most {
		list = append(list[:most], fmt.Sprintf("and %d more", n-most))
	}
	sentences := slices.Sorted(maps.Keys(advice))
	return strings.Join(append(list, sentences[:min(len(sentences), most)]...), "; ")
}

// reasonOf is the one reason that all failures share, or that capacity is wanting.
func reasonOf(failed map[cloud.Option]cloud.OfferingFailure) string {
	reason := ""
	for _, f := range failed {
		if f.Condition == "" || reason != "" && reason != f.Condition {
			return catalog.ReasonInsufficientCapacity
		}
		reason = f.Condition
	}
	return cmp.Or(reason, catalog.ReasonInsufficientCapacity)
}
