package provision

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
	"github.com/slipway-k8s/slipway/plugin/provision/clusterview"
	"github.com/slipway-k8s/slipway/plugin/verify"
)

// trim takes the rejected alternatives out of the claims. Where the claim would then violate its NodePool's minValues, the
// claim's classes are rejected in that NodePool instead, and are planned again.
func (s *rounds) trim(bad map[int][]plan.Offer) []verify.Verdict {
	var out []verify.Verdict
	for _, i := range slices.Sorted(maps.Keys(bad)) {
		c := &s.Plan.Claims[i]
		trimmed := s.trimmed(*c, bad[i])
		if s.in.MinValuesBestEffort || s.keepsMinValues(&trimmed) {
			*c = trimmed
			continue
		}
		for _, m := range c.Members {
			for _, of := range bad[i] {
				out = append(out, verify.Verdict{Class: m.Class, Pods: m.Pods, Rejection: plan.Rejection{
					ClassKey: s.in.Classes[m.Class].Key, NodePool: c.NodePool, InstanceType: of.InstanceType, Zone: of.Zone, CapacityType: of.CapacityType,
					Reason: "an alternative that the NodePool's minValues need does not run the pod",
				}})
			}
		}
	}
	return out
}

// trimmed removes the zones and capacity types in which the expected instance type does not run the pods. Then it removes the
// instance types that do not run them in all zones and capacity types that remain.
func (s *rounds) trimmed(c plan.Claim, bad []plan.Offer) plan.Claim {
	for _, of := range bad {
		switch {
		case of.InstanceType != c.Expected.InstanceType:
		case of.Zone != c.Expected.Zone:
			c.Narrow(corev1.LabelTopologyZone, func(zone string) bool { return zone != of.Zone })
		default:
			c.Narrow(clusterview.LabelCapacityType, func(capacityType string) bool { return capacityType != of.CapacityType })
		}
	}
	c.NarrowTypes(func(name string) bool { return s.launchable(&c, name, bad) })
	return c
}

// launchable reports whether the type is offered where the claim may be launched, and is rejected nowhere there.
func (s *rounds) launchable(c *plan.Claim, name string, bad []plan.Offer) bool {
	types := s.in.Catalog.TypesOf(c.NodePool)
	at := slices.IndexFunc(types, func(t catalog.InstanceType) bool { return t.Name == name })
	if at < 0 {
		return false
	}
	found := false
	for _, o := range types[at].Offerings {
		if !c.AllowsOffering(&o) {
			continue
		}
		if slices.ContainsFunc(bad, func(b plan.Offer) bool {
			return b.InstanceType == name && b.Zone == o.Zone && b.CapacityType == o.CapacityType
		}) {
			return false
		}
		found = found || o.Available
	}
	return found
}

// keepsMinValues reports whether the claim still allows at least minValues distinct values of each label that its NodePool asks
// them for.
func (s *rounds) keepsMinValues(c *plan.Claim) bool {
	_, _, short := c.ShortOfValues(s.in.Catalog.TypesOf(c.NodePool))
	return !short
}
