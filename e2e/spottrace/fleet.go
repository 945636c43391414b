package spottrace

import (
	"cmp"
	"context"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/interruption"
	"github.com/slipway-k8s/slipway/plugin/consolidate"
	"github.com/slipway-k8s/slipway/plugin/consolidate/movebound"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// grants reports whether EC2 launches the claims of a move, and sets what it launches them as. The move may launch what it pays for.
func (w *world) grants(ctx context.Context, made *plan.Plan, m *consolidate.Move, o consolidate.Options) bool {
	cat, _ := w.seen().Catalog(ctx, w.objects(nil, nil))
	b := movebound.Bound{Most: m.Most(o), SpotToSpot: o.SpotToSpot, Catalog: cat}
	for _, n := range m.Nodes {
		b.Going = append(b.Going, n.Offer)
	}
	if b.Keep(made.Claims) != "" {
		return false
	}
	granted := true
	for i := range made.Claims {
		granted = w.launches(&made.Claims[i], cat) && granted
	}
	return granted
}

// launches chooses for a claim as CreateFleet does: of the offerings that the NodeClaim names, the cheapest one that is available. It reports whether
// there is one, and notes the refusals.
func (w *world) launches(c *plan.Claim, cat catalog.State) bool {
	if c.Expected.CapacityType != karpv1.CapacityTypeSpot {
		return true
	}
	type choice struct {
		instanceType *catalog.InstanceType
		offering     *catalog.Offering
	}
	var choices []choice
	types := cat.TypesOf(c.NodePool)
	for i := range types {
		t := &types[i]
		for j := range t.Offerings {
			if o := &t.Offerings[j]; o.CapacityType == karpv1.CapacityTypeSpot && slices.Contains(c.Alternatives, t.Name) && c.AllowsOffering(o) {
				choices = append(choices, choice{t, o})
			}
		}
	}
	slices.SortStableFunc(choices, func(a, b choice) int { return cmp.Compare(a.offering.Price, b.offering.Price) })
	for _, x := range choices {
		of := interruption.Offering{InstanceType: x.instanceType.Name, Zone: x.offering.Zone}
		if !w.quotes()[of].Available {
			w.refuse(of)
			continue
		}
		c.Expected = plan.Offer{InstanceType: of.InstanceType, Zone: of.Zone, CapacityType: karpv1.CapacityTypeSpot, Price: x.offering.Price}
		c.Labels, c.Allocatable = maps.Clone(c.Labels), x.instanceType.Allocatable
		c.Labels[corev1.LabelInstanceTypeStable], c.Labels[corev1.LabelTopologyZone] = of.InstanceType, of.Zone
		return true
	}
	return false
}

// refuses notes the offerings of the claims that EC2 has no capacity in, and reports whether there is any.
func (w *world) refuses(made *plan.Plan) bool {
	out := false
	for i := range made.Claims {
		e := made.Claims[i].Expected
		o := interruption.Offering{InstanceType: e.InstanceType, Zone: e.Zone}
		if e.CapacityType == karpv1.CapacityTypeSpot && !w.quotes()[o].Available {
			w.refuse(o)
			out = true
		}
	}
	return out
}

// refuse notes that EC2 has no capacity in the offering.
func (w *world) refuse(o interruption.Offering) {
	w.refused[o] = w.now + int(interruption.SettleAfter.Minutes())
	w.result.Refused++
}
