package plan

import (
	"math"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/commitment"
)

// commitmentUnit is the unit of what nodes draw on commitments: a billionth of a USD per hour, of a normalized unit or of an instance.
const commitmentUnit = 1e9

// addCovered adds to the offers, after one that was just added, those at the price of each commitment that pays for it.
func (mb *marketBuilder) addCovered(s *shape, o *offer) {
	if len(mb.pools) == 0 || !o.Coverable() || !coverable(mb.market.pools[o.pool].labels, s.Labels) {
		return
	}
	fixed := o.charges.Fixed() + mb.market.pools[o.pool].NodeCost
	onDemand := o.Price - fixed
	for i := range mb.pools {
		p := &mb.pools[i]
		draw, ok := p.Draw(s.Name, o.Zone, onDemand)
		if !ok || draw > p.Amount {
			continue
		}
		c := *o
		c.covered, c.supply, c.draw = p.Name, commitmentSupply(p), int64(math.Ceil(draw*commitmentUnit-0.5))
		c.Price = fixed + p.Price(draw, onDemand)
		mb.market.offers = append(mb.market.offers, c)
	}
}

// coverable reports whether commitments may pay for nodes with the labels of the NodePool and the instance type.
func coverable(pool, instanceType map[string]string) bool {
	tenancy := pool[catalog.LabelInstanceTenancy]
	return tenancy != catalog.TenancyDedicated && instanceType[corev1.LabelOSStable] != string(corev1.Windows)
}

// commitmentSupply returns the supply of offers that the commitments pay for. No reservation is called so.
func commitmentSupply(p *commitment.Pool) string { return "commitment/" + p.Name }
