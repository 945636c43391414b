package zonalshift

import (
	"cmp"
	"slices"

	awsv1 "github.com/aws/karpenter-provider-aws/pkg/apis/v1"
	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
	"github.com/slipway-k8s/slipway/launcher/catalog/template"
)

// Zone is a zone by name and ID.
type Zone struct{ Name, ID string }

// Shifted returns the zones whose offerings a zonal shift makes unavailable, sorted.
func Shifted(types []catalog.InstanceType) []Zone {
	var out []Zone
	for i := range types {
		for _, o := range types[i].Offerings {
			if z := (Zone{o.Zone, o.ZoneID}); o.Refusal.Code == ec2error.ZonalShift && !slices.Contains(out, z) {
				out = append(out, z)
			}
		}
	}
	slices.SortFunc(out, func(a, b Zone) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.ID, b.ID)) })
	return out
}

// Of returns those of the zones that the NodePool's requirements allow. Requirements that cannot be read allow none.
func Of(pool *karpv1.NodePool, zones []Zone) []Zone {
	requirements, err := catalog.NewRequirements(template.Needs(pool))
	if err != nil {
		return nil
	}
	allows := func(key, value string) bool {
		set, restricted := requirements[key]
		return !restricted || set.Has(value)
	}
	return slices.DeleteFunc(slices.Clone(zones), func(z Zone) bool {
		return !allows(corev1.LabelTopologyZone, z.Name) || !allows(awsv1.LabelTopologyZoneID, z.ID)
	})
}

// Without returns the zones of a that b does not have.
func Without(a, b []Zone) []Zone {
	return slices.DeleteFunc(slices.Clone(a), func(z Zone) bool { return slices.Contains(b, z) })
}
