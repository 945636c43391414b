package catalog

import (
	"cmp"
	"maps"
	"math"
	"time"
)

// HoursPerMonth converts AWS's monthly prices where nodes are compared: 365 days of 24 hours in 12 months, as the AWS Pricing Calculator counts.
const HoursPerMonth = 730

// HoursOfMonth returns how many hours the month of a time has in UTC. AWS bills the price of a month for so many hours (AWS re:Post, "How are charges for
// Amazon EBS volumes calculated on my bill?": 720 in a month of 30 days).
func HoursOfMonth(at time.Time) float64 {
	first := time.Date(at.UTC().Year(), at.UTC().Month(), 1, 0, 0, 0, 0, time.UTC)
	return first.AddDate(0, 1, 0).Sub(first).Hours()
}

// Rates are a region's prices of what nodes use beside their instances. They are not changed once they are shared.
type Rates struct {
	// Volumes by EBS volume type, such as gp3.
	Volumes map[string]VolumeRate
	// PublicIPv4 is USD per hour of one address in use.
	PublicIPv4 float64
	// SurplusCPU is USD per vCPU-hour beyond the baseline, by family of burstable instance types that launch in unlimited mode, such as t3.
	SurplusCPU map[string]float64
}

// Equal reports whether all prices are the same.
func (r *Rates) Equal(o *Rates) bool {
	if r == nil || o == nil {
		return r == o
	}
	return r.PublicIPv4 == o.PublicIPv4 && maps.Equal(r.Volumes, o.Volumes) && maps.Equal(r.SurplusCPU, o.SurplusCPU)
}

// VolumeRate is the price of one EBS volume type.
type VolumeRate struct {
	// GiB, IOPS and MiBps are USD per month of one provisioned GiB, I/O operation per second, and MiB per second.
	GiB, IOPS, MiBps float64
	// Tiers are USD per month of one I/O operation per second beyond the first 32,000 and beyond the first 64,000; 0 where IOPS has no tiers.
	Tiers [2]float64
	// FreeIOPS and FreeMiBps are included in the price of the size.
	FreeIOPS, FreeMiBps int64
}

// perHour returns what a volume costs in USD per hour.
func (r VolumeRate) perHour(d BlockDevice) float64 {
	gib := math.Ceil(float64(d.volumeBytes()) / (1 << 30))
	return (gib*r.GiB + r.iopsPerMonth(d.IOPS) + float64(max(d.MiBps-r.FreeMiBps, 0))*r.MiBps) / HoursPerMonth
}

// iopsPerMonth returns what provisioned I/O operations per second cost. A tier without a price costs what the one before it does.
func (r VolumeRate) iopsPerMonth(n int64) float64 {
	second := cmp.Or(r.Tiers[0], r.IOPS)
	tiers := [...]struct {
		over int64
		usd  float64
	}{{64000, cmp.Or(r.Tiers[1], second)}, {32000, second}, {0, r.IOPS}}
	sum, rest := 0.0, max(n-r.FreeIOPS, 0)
	for _, t := range tiers {
		over := max(rest-t.over, 0)
		sum, rest = sum+float64(over)*t.usd, rest-over
	}
	return sum
}

// BuiltinRates returns the prices of us-east-1, for use where the Price List API has none. They are of November 2026, from the pages "Amazon
// EBS pricing" (aws.amazon.com/ebs/pricing), "Amazon VPC pricing" (aws.amazon.com/vpc/pricing, public IPv4 addresses) and "Amazon EC2
// On-Demand Pricing" (aws.amazon.com/ec2/pricing/on-demand, T2/T3/T4g unlimited mode).
func BuiltinRates() *Rates {
	return &Rates{
		Volumes: map[string]VolumeRate{
			"gp3":      {GiB: 0.08, IOPS: 0.005, MiBps: 0.04, FreeIOPS: 3000, FreeMiBps: 125},
			"gp2":      {GiB: 0.10},
			"io1":      {GiB: 0.125, IOPS: 0.065},
			"io2":      {GiB: 0.125, IOPS: 0.065, Tiers: [2]float64{0.0455, 0.03185}},
			"st1":      {GiB: 0.045},
			"sc1":      {GiB: 0.015},
			"standard": {GiB: 0.05},
		},
		PublicIPv4: 0.005,
		SurplusCPU: map[string]float64{"t3": 0.05, "t3a": 0.05, "t4g": 0.04},
	}
}
