// Package movebound takes out of planned NodeClaims the offerings that a move may not launch, and says when what is left is too little: to the decision
// that looks for moves, and to the launch of one. It is pure.
package movebound

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/consolidate"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

const (
	capacityTypeLabel = "karpenter.sh/capacity-type"
	// spotTypes is how many cheaper instance types a single spot node that replaces a single one must have: with fewer, EC2 would
	// soon interrupt it, and the next one would be bought (Karpenter's docs, "Spot consolidation").
	spotTypes = 15
	// rounding is the ratio up to which prices count as equal.
	rounding = 1 + 1e-9
)

// Bound limits what a move may launch.
type Bound struct {
	// Most is the highest price of all launched nodes together, in USD per hour.
	Most float64
	// Going are the offers of the nodes to remove.
	Going []consolidate.Offer
	// SpotToSpot lets spot nodes replace spot nodes.
	SpotToSpot bool
	// MinValuesBestEffort launches even if fewer values are left than a NodePool's minValues.
	MinValuesBestEffort bool
	// Catalog has the prices.
	Catalog catalog.State
}

// Refused returns a function that says why the claims of a plan, which a move launches, would be refused; empty if they would not be. The claims stay as
// they are.
func Refused(p *plan.Plan, in *plan.Input) func(m *consolidate.Move, o consolidate.Options) string {
	at := make(map[string]int, len(p.Claims))
	for i := range p.Claims {
		at[p.Claims[i].Name] = i
	}
	return func(m *consolidate.Move, o consolidate.Options) string {
		b := Bound{Most: m.Most(o), SpotToSpot: o.SpotToSpot, MinValuesBestEffort: in.MinValuesBestEffort, Catalog: in.Catalog}
		for i := range m.Nodes {
			b.Going = append(b.Going, m.Nodes[i].Offer)
		}
		claims := make([]plan.Claim, 0, len(m.Replacements))
		for i := range m.Replacements {
			claims = append(claims, p.Claims[at[m.Replacements[i].Name]])
		}
		return b.Keep(claims)
	}
}

// Keep takes out of the claims what would exceed the bound, whichever alternative EC2 chooses. If that is not possible it returns
// why; otherwise it returns an empty text.
func (b *Bound) Keep(claims []plan.Claim) string {
	total := 0.0
	for i := range claims {
		e := claims[i].Expected
		total += e.Price
		switch {
		case b.equal(claims[i].NodePool, e.InstanceType, e.CapacityType):
			return fmt.Sprintf("an equal node (%s, %s) would be bought for its pods", e.InstanceType, e.CapacityType)
		case interruptible(e.CapacityType) && b.allSpot() && !b.SpotToSpot:
			return "spot nodes are replaced by other spot nodes only where that is allowed (SpotToSpotConsolidation)"
		}
	}
	if total > b.Most*rounding {
		return fmt.Sprintf("room for its pods costs %.4f USD/h now, and is worth %.4f at most", total, b.Most)
	}
	for i := range claims {
		b.trim(&claims[i], claims[i].Expected.Price+(b.Most-total)/float64(len(claims)))
		if why := b.short(&claims[i]); why != "" && !b.MinValuesBestEffort {
			return why
		}
	}
	if len(claims) == 1 && len(b.Going) == 1 && interruptible(claims[0].Expected.CapacityType) && b.allSpot() {
		if n := len(claims[0].Alternatives); n < spotTypes {
			return fmt.Sprintf("%s would be cheaper, a spot node is replaced by another one only where there are %d", catalog.CountText(n, "instance type"), spotTypes)
		}
		b.cheapest(&claims[0])
	}
	return ""
}

// short returns which minValues the claim cannot keep; empty if it keeps all.
func (b *Bound) short(c *plan.Claim) string {
	r, have, short := c.ShortOfValues(b.Catalog.TypesOf(c.NodePool))
	if !short {
		return ""
	}
	return fmt.Sprintf("minValues of NodePool %s asks for %s of %s, nodes that cost little enough have %d",
		c.NodePool, catalog.CountText(int(r.MinValues), "value"), r.Key, have)
}

// cheapest leaves the claim its cheapest spotTypes instance types, and more only as far as minValues needs them (Karpenter's
// computeSpotToSpotConsolidation).
func (b *Bound) cheapest(c *plan.Claim) {
	all := *c
	for n := spotTypes; n <= len(all.Alternatives); n++ {
		*c = all
		c.NarrowTypes(func(name string) bool { return slices.Contains(all.Alternatives[:n], name) })
		if b.short(c) == "" {
			return
		}
	}
}

func (b *Bound) equal(pool, instanceType, capacityType string) bool {
	return slices.ContainsFunc(b.Going, func(o consolidate.Offer) bool {
		return o.NodePool == pool && o.InstanceType == instanceType && o.CapacityType == capacityType
	})
}

func (b *Bound) allSpot() bool {
	return !slices.ContainsFunc(b.Going, func(o consolidate.Offer) bool { return !interruptible(o.CapacityType) })
}

// onDemand returns the price of the offering without the commitments that pay for it.
func onDemand(offerings []catalog.Offering, of plan.Offer) float64 {
	for _, o := range offerings {
		if o.Zone == of.Zone && o.CapacityType == of.CapacityType {
			return o.Price
		}
	}
	return of.Price
}

func interruptible(capacityType string) bool {
	return catalog.CapacityTypeOf(capacityType).Interruptible
}

// offerings returns those of the claim's instance types, by their names.
func (b *Bound) offerings(c *plan.Claim) map[string][]catalog.Offering {
	out := map[string][]catalog.Offering{c.Expected.InstanceType: nil}
	for _, name := range c.Alternatives {
		out[name] = nil
	}
	types := b.Catalog.TypesOf(c.NodePool)
	for i := range types {
		if _, named := out[types[i].Name]; named {
			out[types[i].Name] = types[i].Offerings
		}
	}
	return out
}

// trim leaves the claim those alternatives, zones and capacity types that cost no more than limit wherever EC2 may launch them.
// The expected instance type in its zone and capacity type stays.
func (b *Bound) trim(c *plan.Claim, limit float64) {
	limit -= b.Catalog.NodePools[c.NodePool].NodeCost // Offerings' prices are without it.
	offerings := b.offerings(c)
	expected := offerings[c.Expected.InstanceType]
	if c.Covered != "" {
		limit = onDemand(expected, c.Expected) // All alternatives are covered: none may use more of the commitments than is planned.
	}
	c.Narrow(capacityTypeLabel, func(capacityType string) bool {
		return capacityType == c.Expected.CapacityType || !slices.ContainsFunc(expected, func(o catalog.Offering) bool {
			return o.Zone == c.Expected.Zone && o.CapacityType == capacityType &&
				(o.Price > limit*rounding || b.equal(c.NodePool, c.Expected.InstanceType, capacityType))
		})
	})
	c.Narrow(corev1.LabelTopologyZone, func(zone string) bool {
		return zone == c.Expected.Zone || !slices.ContainsFunc(expected, func(o catalog.Offering) bool {
			return o.Zone == zone && c.Allows(capacityTypeLabel, o.CapacityType) && o.Price > limit*rounding
		})
	})
	c.NarrowTypes(func(name string) bool {
		return !slices.ContainsFunc(offerings[name], func(o catalog.Offering) bool {
			return c.Allows(corev1.LabelTopologyZone, o.Zone) && c.Allows(capacityTypeLabel, o.CapacityType) &&
				(o.Price > limit*rounding || b.equal(c.NodePool, name, o.CapacityType))
		})
	})
}
