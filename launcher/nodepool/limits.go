package nodepool

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/template"
)

// ConditionLimitReached is True on a NodePool whose limits leave no room for a node of any of its instance types, and absent otherwise.
const ConditionLimitReached = "slipway.dev/LimitReached"

// ReasonLimitReached is the reason of ConditionLimitReached and of the Event about it.
const ReasonLimitReached = "LimitReached"

// nodes is the limit of how many nodes there are.
const nodes corev1.ResourceName = "nodes"

// limitReached returns which limit keeps the pool from another node of any of its instance types: of those that come nearest to keeping the limits, the
// limit that is exceeded most. It is empty while a node has room, or if no instance type meets the pool's requirements.
func limitReached(pool *karpv1.NodePool, usage, limits corev1.ResourceList, types []catalog.InstanceType) string {
	wanted := append(decided(pool), capacityTypes(pool)...)
	requirements, err := catalog.NewRequirements(wanted)
	if err != nil || len(limits) == 0 || pool.Spec.Replicas != nil {
		return "" // The validation reports the error, and package static the nodes that are missing.
	}
	ofType, ofOffering := maps.Clone(requirements), catalog.Requirements{}
	for _, key := range []string{corev1.LabelTopologyZone, karpv1.CapacityTypeLabelKey} {
		if set, ok := requirements[key]; ok {
			ofOffering[key] = set
			delete(ofType, key)
		}
	}
	declared, _ := catalog.DeclaredCost(pool.Annotations) // SetConditions reports the error.
	nearest, text := math.Inf(1), ""
	for i := range types {
		t := &types[i]
		usd, offered := cheapest(t, ofOffering, declared)
		if _, ok := ofType.Match(t.Labels); !ok || !offered {
			continue
		}
		worst, limit := math.Inf(-1), corev1.ResourceName("")
		for _, name := range slices.Sorted(maps.Keys(limits)) {
			used, most := usage[name], limits[name]
			over := used.AsApproximateFloat64() + adds(t, name, usd) - most.AsApproximateFloat64()
			if share := over / max(most.AsApproximateFloat64(), 1e-6); share > worst {
				worst, limit = share, name
			}
		}
		if worst <= 1e-9 {
			return ""
		}
		if worst < nearest {
			nearest = worst
			used, most := usage[limit], limits[limit]
			text = fmt.Sprintf("limit %s of %s reached: %s in use, the smallest node, %s, adds %s", limit, figure(limit, most), figure(limit, used), t.Name, figure(limit, quantity(t, limit, usd)))
		}
	}
	return text
}

// capacityTypes returns the pool's requirements on capacity types.
func capacityTypes(pool *karpv1.NodePool) []catalog.Requirement {
	var out []catalog.Requirement
	for _, r := range template.Needs(pool) {
		if r.Key == karpv1.CapacityTypeLabelKey {
			out = append(out, r)
		}
	}
	return out
}

// cheapest returns the least that a node of the type counts against catalog.LimitUSD, in millionths; false if the requirements allow none of its offerings.
func cheapest(t *catalog.InstanceType, requirements catalog.Requirements, declared catalog.Declared) (micro int64, offered bool) {
	for i := range t.Offerings {
		if o := &t.Offerings[i]; requirements.Admit(o) {
			if usd := t.LimitedUSD(o.Price, declared); !offered || usd < micro {
				micro, offered = usd, true
			}
		}
	}
	return micro, offered
}

// quantity returns what a node of the type counts against a limit.
func quantity(t *catalog.InstanceType, limit corev1.ResourceName, usd int64) resource.Quantity {
	switch limit {
	case nodes:
		return *resource.NewQuantity(1, resource.DecimalSI)
	case catalog.LimitUSD:
		return catalog.USDQuantity(usd)
	default:
		return t.Capacity[limit]
	}
}

func adds(t *catalog.InstanceType, limit corev1.ResourceName, usd int64) float64 {
	q := quantity(t, limit, usd)
	return q.AsApproximateFloat64()
}

// figure prints an amount for a human: USD as a decimal number.
func figure(limit corev1.ResourceName, q resource.Quantity) string {
	if limit == catalog.LimitUSD {
		return strconv.FormatFloat(float64(catalog.MicroUSDOf(q))/1e6, 'f', -1, 64)
	}
	return q.String()
}
