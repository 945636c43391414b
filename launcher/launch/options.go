package launch

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/cloud"
	"github.com/slipway-k8s/slipway/launcher/record"
)

// maxTypes is how many instance types one call names at most: what Karpenter sends.
const maxTypes = 60

// Options are the available offerings that a claim may be launched in, cheapest first; those in failed are left out. It
// fails where the claim's requirements cannot be read.
func Options(claim *karpv1.NodeClaim, types []catalog.InstanceType, failed map[cloud.Option]string) ([]cloud.Option, error) {
	reqs, err := record.Requirements(claim)
	if err != nil {
		return nil, err
	}
	names := record.InstanceTypes(claim)
	var out []cloud.Option
	for _, t := range types {
		if len(names) > 0 && !slices.Contains(names, t.Name) || !allowed(reqs, corev1.LabelInstanceTypeStable, t.Name) || !offers(reqs, t.Labels) {
			continue
		}
		for _, o := range t.Offerings {
			option := cloud.Option{InstanceType: t.Name, Zone: o.Zone, CapacityType: o.CapacityType, Price: o.Price}
			_, tried := failed[key(option)]
			if o.Available && !tried && allowed(reqs, corev1.LabelTopologyZone, o.Zone) && allowed(reqs, zoneIDLabel, o.ZoneID) &&
				allowed(reqs, karpv1.CapacityTypeLabelKey, o.CapacityType) {
				out = append(out, option)
			}
		}
	}
	slices.SortFunc(out, func(a, b cloud.Option) int {
		return cmp.Or(cmp.Compare(a.Price, b.Price), cmp.Compare(a.InstanceType, b.InstanceType), cmp.Compare(a.Zone, b.Zone),
			cmp.Compare(a.CapacityType, b.CapacityType))
	})
	seen := map[string]bool{}
	return slices.DeleteFunc(out, func(o cloud.Option) bool {
		if len(seen) < maxTypes {
			seen[o.InstanceType] = true
		}
		return !seen[o.InstanceType]
	}), nil
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
		if ok && !set.Has(value) || !ok && strings.HasPrefix(label, instanceLabels) && !set.Absent {
			return false
		}
	}
	return true
}

// key is an option without what may change between two attempts.
func key(o cloud.Option) cloud.Option {
	return cloud.Option{InstanceType: o.InstanceType, Zone: o.Zone, CapacityType: o.CapacityType}
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
		out = append(out, group)
	}
	slices.SortFunc(out, func(a, b []*karpv1.NodeClaim) int { return cmp.Compare(a[0].Name, b[0].Name) })
	return out
}

// groupKey is all that matters to EC2, and the launch id: what an earlier process began must be found again as it was.
func groupKey(c *karpv1.NodeClaim) string {
	spec := c.Spec.DeepCopy()
	spec.Resources = karpv1.ResourceRequirements{}
	text, err := json.Marshal(struct {
		Labels        map[string]string
		Spec          *karpv1.NodeClaimSpec
		Types, Launch string
	}{c.Labels, spec, c.Annotations[catalog.InstanceTypesAnnotation], c.Annotations[catalog.LaunchAnnotation]})
	if err != nil {
		return c.Name // A group of its own: nothing is lost but a shared call.
	}
	return string(text)
}

// explain tells the failures of all offerings that were tried.
func explain(failed map[cloud.Option]string) string {
	if len(failed) == 0 {
		return "none of its instance types is offered and available in its zones and capacity types"
	}
	list := make([]string, 0, len(failed))
	for o, reason := range failed {
		list = append(list, fmt.Sprintf("%s %s in %s: %s", o.InstanceType, o.CapacityType, o.Zone, reason))
	}
	slices.Sort(list)
	const most = 5
	if n := len(list); n > most {
		list = append(list[:most], fmt.Sprintf("and %d more", n-most))
	}
	return strings.Join(list, "; ")
}
