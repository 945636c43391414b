package view

import (
	"time"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Prices are what launches are planned with: USD per hour of an instance with Linux, without its volumes and addresses, what nodes use besides, and what EC2
// refuses. slipway simulate --prices reads them.
type Prices struct {
	// OnDemand has them by instance type.
	OnDemand map[string]float64 `json:"on-demand"`
	// Dedicated has those of dedicated tenancy on demand, by instance type; types without one are not known to be more expensive.
	Dedicated map[string]float64 `json:"dedicated,omitempty"`
	// Spot has them by zone and instance type.
	Spot map[string]map[string]float64 `json:"spot"`
	// Usage has what nodes use beside their instances by AWS's usage type: USD per month of a GiB of a volume, of an I/O operation per second and of a MiB per
	// second, USD per hour of a public IPv4 address and of a vCPU beyond the baseline of a burstable instance.
	Usage map[string]float64 `json:"usage"`
	// Refused are the offerings that EC2 refuses now: nothing is planned on them until they are tried again. Only the replica that leads knows them:
	// another one leaves them out.
	Refused []Fault `json:"refused,omitzero"`
	// Standby means that the replica does not lead: it does not know what EC2 refuses.
	Standby bool `json:"standby,omitempty"`
}

// PricesOf returns the prices of the instance types by EC2NodeClass and of what nodes use besides, nil for the built-in ones, and what EC2 refuses at a
// time. A class whose operating system has a license is planned with that in addition. Of classes that pay differently it has the lowest price. What is
// paid for already, such as a capacity reservation, has none.
func PricesOf(byClass map[string][]catalog.InstanceType, rates *catalog.Rates, now time.Time) Prices {
	out := Prices{
		OnDemand: map[string]float64{}, Dedicated: map[string]float64{}, Spot: map[string]map[string]float64{}, Usage: rates.ByUsageType(), Refused: refused(byClass, now),
	}
	for _, types := range byClass {
		for i := range types {
			t := &types[i]
			for _, o := range t.Offerings {
				capacity := catalog.CapacityTypeOf(o.CapacityType)
				price := catalog.Micro(o.Price - t.Charges.Fixed() - t.Charges.License)
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
				if t.DedicatedShare > 0 && !capacity.Interruptible {
					out.Dedicated[t.Name] = catalog.Micro(of[t.Name] * (1 + t.DedicatedShare))
				}
			}
		}
	}
	return out
}
