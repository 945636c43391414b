package catalog

import (
	"fmt"
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// LimitUSD is the key of spec.limits, and of status.resources, for what the nodes of a NodePool cost, in USD per hour. Karpenter's CRD admits any
// name; its controller compares limits with what instance types have, so that it ignores this one.
const LimitUSD corev1.ResourceName = "slipway.dev/usd-per-hour"

// limitPrefix begins the names of slipway's own limits.
const limitPrefix = "slipway.dev/"

// UnknownLimits returns an error about the limits that begin like slipway's own and are none, such as a mistyped LimitUSD: they would limit
// nothing.
func UnknownLimits(limits corev1.ResourceList) error {
	var unknown []string
	for name := range limits {
		if strings.HasPrefix(string(name), limitPrefix) && name != LimitUSD {
			unknown = append(unknown, string(name))
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	slices.Sort(unknown)
	return fmt.Errorf("%s: %s is the only limit of slipway's own", strings.Join(unknown, ", "), LimitUSD)
}

// mostMicroUSD bounds what counts: it is more than all of EC2 costs.
const mostMicroUSD = 1 << 53

// LimitedUSD returns what a node of an offering counts against LimitUSD, in millionths of USD per hour, rounded up: what AWS and the NodePool charge
// for it, whatever its pods do. So a burstable node counts with the surplus of all of its CPU, as far as the NodePool says that pods use it. What
// interruptions are expected to cost is not charged, and commitments may pay for another node tomorrow: neither counts.
func (t *InstanceType) LimitedUSD(price float64, d Declared) int64 {
	cpu := t.Allocatable.Cpu().MilliValue()
	return MicroUSD(price + d.NodeCost + t.Charges.Assuming(d.IdleCPU).Burst(cpu))
}

// MicroUSD returns USD in millionths, rounded up.
func MicroUSD(usd float64) int64 {
	micro := math.Ceil(usd*1e6 - 1e-6)
	if !(micro > 0) {
		return 0
	}
	return int64(min(micro, mostMicroUSD))
}

// USDQuantity returns millionths of USD as a quantity of LimitUSD.
func USDQuantity(micro int64) resource.Quantity {
	return *resource.NewScaledQuantity(micro, resource.Micro)
}

// MicroUSDOf returns a quantity of LimitUSD in millionths, at most mostMicroUSD either way.
func MicroUSDOf(q resource.Quantity) int64 {
	const whole = mostMicroUSD / 1_000_000
	if q.CmpInt64(whole) > 0 {
		return mostMicroUSD
	}
	if q.CmpInt64(-whole) < 0 {
		return -mostMicroUSD
	}
	return q.ScaledValue(resource.Micro)
}

// Prices are what nodes of one NodePool count against LimitUSD.
type Prices struct {
	// Types are the NodePool's instance types by name.
	Types map[string]InstanceType
	// Declared is what the NodePool declares.
	Declared Declared
}

// At returns the millionths of USD of an offering, the most where several are alike; false if it is not known.
func (p Prices) At(instanceType, zone, capacityType string) (micro int64, known bool) {
	t, ok := p.Types[instanceType]
	if !ok {
		return 0, false
	}
	for i := range t.Offerings {
		if o := &t.Offerings[i]; o.Zone == zone && o.CapacityType == capacityType && o.Price > 0 {
			micro, known = max(micro, t.LimitedUSD(o.Price, p.Declared)), true
		}
	}
	return micro, known
}

// Most returns the most that a node counts that may be of any of the types, and of any of their offerings that the requirements allow.
func (p Prices) Most(names []string, reqs Requirements) int64 {
	most := int64(0)
	for _, name := range names {
		t, ok := p.Types[name]
		if !ok {
			continue
		}
		for i := range t.Offerings {
			if o := &t.Offerings[i]; o.Price > 0 && reqs.Admit(o) {
				most = max(most, t.LimitedUSD(o.Price, p.Declared))
			}
		}
	}
	return most
}

// Admit reports whether the requirements allow the zone and the capacity type of an offering.
func (rs Requirements) Admit(o *Offering) bool {
	for _, label := range []struct{ key, value string }{{corev1.LabelTopologyZone, o.Zone}, {labelCapacityType, o.CapacityType}} {
		if set, restricted := rs[label.key]; restricted && !set.Has(label.value) {
			return false
		}
	}
	return true
}
