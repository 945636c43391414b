package market

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/simulate/input"
)

// mostNamed bounds the prices of NodeClaims that a note names.
const mostNamed = 20

// launchPrice is the spot price at which a NodeClaim was launched.
type launchPrice struct {
	instanceType, zone string
	usd                float64
	claim              *karpv1.NodeClaim
}

// AtLaunch returns the market with the spot prices at which NodeClaims of the objects were launched, the latest of each offering, and a note that has
// them. It returns the market as it is where that has spot prices of its own, and where the objects have none. Where a NodeOverlay changes prices,
// those of NodeClaims have that change already, and are not used. On-demand prices stay: those of a few types beside the built-in ones of another
// region would favor the wrong ones.
func (m *Market) AtLaunch(objects *input.Objects, now time.Time) *Market {
	if !m.noSpot {
		return m
	}
	for _, o := range objects.NodeOverlays {
		if o.Spec.Price != nil || o.Spec.PriceAdjustment != nil {
			return m
		}
	}
	latest := map[[2]string]launchPrice{}
	for _, claim := range objects.NodeClaims {
		p, ok := priceOf(claim)
		if !ok {
			continue
		}
		key := [2]string{p.zone, p.instanceType}
		if old, ok := latest[key]; !ok || old.claim.CreationTimestamp.Before(&claim.CreationTimestamp) {
			latest[key] = p
		}
	}
	if len(latest) == 0 {
		return m
	}
	out := *m
	out.Spot, out.Notes = map[string]map[string]float64{}, slices.DeleteFunc(slices.Clone(m.Notes), func(n string) bool { return n == noSpotNote })
	prices := slices.SortedFunc(maps.Values(latest), func(a, b launchPrice) int {
		return cmp.Or(strings.Compare(a.instanceType, b.instanceType), strings.Compare(a.zone, b.zone))
	})
	var named []string
	for _, p := range prices {
		if out.Spot[p.zone] == nil {
			out.Spot[p.zone] = map[string]float64{}
		}
		out.Spot[p.zone][p.instanceType] = p.usd
		named = append(named, fmt.Sprintf("%s in %s at %s USD per hour (NodeClaim %s, launched %s ago)", p.instanceType, p.zone, catalog.USD(p.usd),
			p.claim.Name, now.Sub(p.claim.CreationTimestamp.Time).Round(time.Second)))
	}
	out.Notes = append(out.Notes, "spot prices: those at which NodeClaims of the cluster were launched; other spot prices are not known without --aws or --prices: "+some(named, mostNamed))
	return &out
}

// priceOf returns the spot price of a NodeClaim's instance; false where it has none that holds for others: its node is not interruptible, pays for a
// license as well, is on a dedicated host, or was not launched by slipway.
func priceOf(claim *karpv1.NodeClaim) (launchPrice, bool) {
	cost, ok := catalog.ParseCost(claim.Annotations[catalog.CostAnnotation])
	out := launchPrice{instanceType: claim.Labels[corev1.LabelInstanceTypeStable], zone: claim.Labels[corev1.LabelTopologyZone], usd: cost.Instance, claim: claim}
	usual := catalog.CapacityTypeOf(claim.Labels[karpv1.CapacityTypeLabelKey]).Interruptible &&
		claim.Labels[corev1.LabelOSStable] != string(corev1.Windows) && claim.Labels[catalog.LabelInstanceTenancy] != catalog.TenancyDedicated
	return out, ok && usual && out.usd > 0 && out.instanceType != "" && out.zone != "" && claim.Status.ProviderID != ""
}

// Open returns the market as if EC2 refused nothing: what is there now could be had before.
func (m *Market) Open() *Market {
	out := *m
	out.refused = nil
	note := m.refused.note()
	out.Notes = slices.DeleteFunc(slices.Clone(m.Notes), func(n string) bool { return slices.Contains(note, n) })
	return &out
}
