package verify

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// trim takes the bad alternatives out of the claims. Where a NodePool's minValues would be lost by that, the claim's
// classes are rejected there instead, to be planned again.
func (s *solving) trim(bad map[int][]plan.Offer) []verdict {
	var out []verdict
	for _, i := range slices.Sorted(maps.Keys(bad)) {
		c := &s.Plan.Claims[i]
		trimmed := s.trimmed(*c, bad[i])
		if s.in.MinValuesBestEffort || s.keepsMinValues(&trimmed) {
			*c = trimmed
			continue
		}
		for _, m := range c.Members {
			for _, of := range bad[i] {
				out = append(out, verdict{plan.Rejection{
					ClassKey: s.in.Classes[m.Class].Key, NodePool: c.NodePool, InstanceType: of.InstanceType, Zone: of.Zone, CapacityType: of.CapacityType,
					Reason: "an alternative that the NodePool's minValues need does not run the pod",
				}, m.Class, m.Pods})
			}
		}
	}
	return out
}

// trimmed drops zones and capacity types where the expected instance type does not run the pods, then the instance types
// that do not run them wherever the claim may still be launched.
func (s *solving) trimmed(c plan.Claim, bad []plan.Offer) plan.Claim {
	c.Requirements = slices.Clone(c.Requirements)
	for _, of := range bad {
		if of.InstanceType != c.Expected.InstanceType {
			continue
		}
		if of.Zone != c.Expected.Zone {
			dropValue(&c, corev1.LabelTopologyZone, of.Zone)
		} else {
			dropValue(&c, labelCapacityType, of.CapacityType)
		}
	}
	c.Alternatives = slices.DeleteFunc(slices.Clone(c.Alternatives), func(name string) bool {
		return name != c.Expected.InstanceType && !s.launchable(&c, name, bad)
	})
	for i, r := range c.Requirements {
		if r.Key == corev1.LabelInstanceTypeStable && r.Operator == corev1.NodeSelectorOpIn {
			c.Requirements[i].Values = slices.DeleteFunc(slices.Clone(r.Values), func(v string) bool { return !slices.Contains(c.Alternatives, v) })
		}
	}
	return c
}

func dropValue(c *plan.Claim, key, value string) {
	for i, r := range c.Requirements {
		if r.Key == key {
			c.Requirements[i].Values = slices.DeleteFunc(slices.Clone(r.Values), func(v string) bool { return v == value })
		}
	}
}

// launchable says that the type is offered where the claim may be launched, and nowhere there is it bad.
func (s *solving) launchable(c *plan.Claim, name string, bad []plan.Offer) bool {
	types := s.in.Catalog.InstanceTypes[s.in.Catalog.NodePools[c.NodePool].NodeClass]
	at := slices.IndexFunc(types, func(t catalog.InstanceType) bool { return t.Name == name })
	if at < 0 {
		return false
	}
	found := false
	for _, o := range types[at].Offerings {
		if !allows(c, corev1.LabelTopologyZone, o.Zone) || !allows(c, labelCapacityType, o.CapacityType) {
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

// allows says that the claim's requirement on the key, if there is one, lists the value.
func allows(c *plan.Claim, key, value string) bool {
	at := slices.IndexFunc(c.Requirements, func(r catalog.Requirement) bool { return r.Key == key })
	return at < 0 || slices.Contains(c.Requirements[at].Values, value)
}

// keepsMinValues counts the distinct values that the claim still leaves possible.
func (s *solving) keepsMinValues(c *plan.Claim) bool {
	types := s.in.Catalog.InstanceTypes[s.in.Catalog.NodePools[c.NodePool].NodeClass]
	for _, r := range c.Requirements {
		if r.MinValues <= 0 {
			continue
		}
		seen := map[string]bool{}
		for _, t := range types {
			if v, ok := t.Labels[r.Key]; ok && slices.Contains(c.Alternatives, t.Name) {
				seen[v] = true
			}
		}
		if r.Key == corev1.LabelTopologyZone || r.Key == labelCapacityType || r.Key == corev1.LabelInstanceTypeStable {
			for _, v := range r.Values {
				seen[v] = true
			}
		}
		if len(seen) < int(r.MinValues) {
			return false
		}
	}
	return true
}
