package view

import (
	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Prices are what launches are planned with, in USD per hour of an instance, without its volumes and addresses. slipway simulate --prices reads them.
type Prices struct {
	// OnDemand has them by instance type.
	OnDemand map[string]float64 `json:"on-demand"`
	// Spot has them by zone and instance type.
	Spot map[string]map[string]float64 `json:"spot"`
}

// PricesOf returns the prices of the instance types by EC2NodeClass. Of classes that pay differently, such as those with a license, it has the
// lowest price. What is paid for already, such as a capacity reservation, has none.
func PricesOf(byClass map[string][]catalog.InstanceType) Prices {
	out := Prices{OnDemand: map[string]float64{}, Spot: map[string]map[string]float64{}}
	for _, types := range byClass {
		for i := range types {
			t := &types[i]
			for _, o := range t.Offerings {
				capacity := catalog.CapacityTypeOf(o.CapacityType)
				price := catalog.Micro(o.Price - t.Charges.Fixed())
				if capacity.Counted || price <= 0 {
					continue
				}
				of := out.OnDemand
				if capacity.Interruptible {
					if out.Spot[o.Zone] == nil {
						out.Spot[o.Zone] = map[string]float64{}
					}
					of = out.Spot[o.Zone]
				}
				if known, ok := of[t.Name]; !ok || price < known {
					of[t.Name] = price
				}
			}
		}
	}
	return out
}
