// Package commitment has what an AWS account has committed to pay for, Savings Plans and Reserved Instances, and which nodes that pays for. It
// is pure: it reads no clock and calls no API.
package commitment

import (
	"strconv"
	"strings"
	"time"
)

// Kind is the kind of a commitment.
type Kind string

// The kinds, in the order in which AWS applies them (Savings Plans user guide, "How Savings Plans apply to your AWS usage"): Reserved Instances
// first, then plans of one family, then Compute Savings Plans.
const (
	ReservedInstances      Kind = "ReservedInstances"
	EC2InstanceSavingsPlan Kind = "EC2InstanceSavingsPlan"
	ComputeSavingsPlan     Kind = "ComputeSavingsPlan"
)

// Commitment is what an account pays for whether it is used or not.
type Commitment struct {
	// ID of the Savings Plan or of the Reserved Instances.
	ID string
	// Kind of the commitment.
	Kind Kind
	// USDPerHour is the amount of a Savings Plan, or what one of Reserved Instances costs with its share of what was paid upfront; 0 if that is not known.
	USDPerHour float64
	// Discount is the share of the on-demand price, 0 to 1, by which usage under a Savings Plan is cheaper, where Rates has no rate.
	Discount float64
	// Rates are USD per hour under a Savings Plan, by instance type.
	Rates map[string]float64
	// Family is the family of an EC2 Instance Savings Plan, such as m7g; empty for other kinds.
	Family string
	// InstanceType and Count are those of Reserved Instances; 0 and empty for Savings Plans.
	InstanceType string
	Count        int
	// Zone of zonal Reserved Instances; empty for the whole region.
	Zone string
	// End is when it ends; zero if that is not known.
	End time.Time
	// Share of it, 0 to 1, that this cluster may use.
	Share float64
}

// Ended reports whether the commitment has ended.
func (c *Commitment) Ended(now time.Time) bool { return !c.End.IsZero() && !now.Before(c.End) }

// Amount returns what the cluster may use: USD per hour of a Savings Plan, normalized units or instances of Reserved Instances. Draw has the same
// unit.
func (c *Commitment) Amount() float64 {
	if c.Kind != ReservedInstances {
		return c.USDPerHour * c.Share
	}
	return float64(c.Count) * c.units(c.InstanceType) * c.Share
}

// Cost returns what the cluster's share of the commitment costs per hour, used or not; 0 for Reserved Instances whose price is not known.
func (c *Commitment) Cost() float64 {
	if c.Kind == ReservedInstances {
		return c.USDPerHour * float64(c.Count) * c.Share
	}
	return c.Amount()
}

// Draw returns how much of the commitment a node uses that it pays for, and false if it does not pay for such nodes. onDemand is the price of the
// node's instance in USD per hour.
func (c *Commitment) Draw(instanceType, zone string, onDemand float64) (float64, bool) {
	family, _, _ := strings.Cut(instanceType, ".")
	switch c.Kind {
	case ReservedInstances:
		own, _, _ := strings.Cut(c.InstanceType, ".")
		exact := instanceType == c.InstanceType
		if c.Zone != "" && c.Zone != zone || !exact && (own != family || !c.Flexible() || units(instanceType) == 0) {
			return 0, false
		}
		return c.units(instanceType), true
	case EC2InstanceSavingsPlan:
		if family != c.Family {
			return 0, false
		}
	case ComputeSavingsPlan:
	default:
		return 0, false
	}
	rate := c.rate(instanceType, onDemand)
	return rate, rate > 0
}

// rate returns what an hour of the instance type costs under a Savings Plan.
func (c *Commitment) rate(instanceType string, onDemand float64) float64 {
	if usd, ok := c.Rates[instanceType]; ok {
		return usd
	}
	if c.Discount <= 0 {
		return 0 // The plan has rates, and none for this type.
	}
	return onDemand * (1 - c.Discount)
}

// Flexible reports whether the Reserved Instances apply to other sizes of their family: those of a region do, with exceptions (EC2 User Guide,
// "How Reserved Instances are applied", instance size flexibility).
func (c *Commitment) Flexible() bool {
	if c.Zone != "" || units(c.InstanceType) == 0 {
		return false
	}
	for _, family := range []string{"g4ad", "g4dn", "g5", "g5g", "g6", "g6e", "g6f", "gr6", "gr6f", "hpc", "p5", "inf", "u-", "u7i"} {
		if strings.HasPrefix(c.InstanceType, family) {
			return false
		}
	}
	return true
}

// units returns the normalized units of an instance type, or 1 where sizes cannot replace each other.
func (c *Commitment) units(instanceType string) float64 {
	if c.Flexible() {
		return units(instanceType)
	}
	return 1
}

// units returns the normalization factor of an instance type's size (EC2 User Guide, "Instance size flexibility determined by normalization
// factor"); 0 for bare metal.
func units(instanceType string) float64 {
	const xlarge = 8
	_, size, _ := strings.Cut(instanceType, ".")
	n, ok := strings.CutSuffix(size, "xlarge")
	switch {
	case !ok:
		return map[string]float64{"nano": 0.25, "micro": 0.5, "small": 1, "medium": 2, "large": 4}[size]
	case n == "":
		return xlarge
	}
	times, err := strconv.Atoi(n)
	if err != nil {
		return 0
	}
	return xlarge * float64(times)
}
