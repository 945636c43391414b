package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Allows reports whether the claim may get a node that has the value of the label: whether its requirement of operator In on
// the key, if there is one, lists the value.
func (c *Claim) Allows(key, value string) bool {
	for _, r := range c.Requirements {
		if r.Key == key && r.Operator == corev1.NodeSelectorOpIn {
			return slices.Contains(r.Values, value)
		}
	}
	return true
}

// AllowsOffering reports whether the claim's requirements allow the offering of one of its instance types.
func (c *Claim) AllowsOffering(o *catalog.Offering) bool {
	return c.Allows(corev1.LabelTopologyZone, o.Zone) && c.Allows(labelCapacityType, o.CapacityType) &&
		(o.ReservationID == "" || c.Allows(catalog.LabelReservationID, o.ReservationID))
}

// Narrow leaves of the claim's requirement of operator In on the key the values for which keep is true. Lists that the claim
// shares with others stay as they are.
func (c *Claim) Narrow(key string, keep func(value string) bool) {
	c.Requirements = slices.Clone(c.Requirements)
	for i, r := range c.Requirements {
		if r.Key == key && r.Operator == corev1.NodeSelectorOpIn {
			c.Requirements[i].Values = slices.DeleteFunc(slices.Clone(r.Values), func(v string) bool { return !keep(v) })
		}
	}
}

// NarrowTypes leaves of the claim's alternatives, and of its requirement on the instance type, the types for which keep is
// true. The expected instance type stays.
func (c *Claim) NarrowTypes(keep func(instanceType string) bool) {
	c.Alternatives = slices.DeleteFunc(slices.Clone(c.Alternatives), func(name string) bool {
		return name != c.Expected.InstanceType && !keep(name)
	})
	c.Narrow(corev1.LabelInstanceTypeStable, func(name string) bool { return slices.Contains(c.Alternatives, name) })
}

// ShortOfValues returns a requirement of the claim that has fewer values left than its minValues, with the number that is left, and
// whether there is one. It counts as the launcher does, over the available offerings of the alternatives. The types are those of
// the claim's NodePool.
func (c *Claim) ShortOfValues(types []catalog.InstanceType) (r catalog.Requirement, have int, short bool) {
	for _, r := range c.Requirements {
		if r.MinValues <= 0 {
			continue
		}
		seen := map[string]bool{}
		for i := range types {
			if t := &types[i]; slices.Contains(c.Alternatives, t.Name) {
				c.addValues(seen, r.Key, t)
			}
		}
		if len(seen) < int(r.MinValues) {
			return r, len(seen), true
		}
	}
	return catalog.Requirement{}, 0, false
}

// addValues adds the values that the type has for the key where the claim may be launched as the type.
func (c *Claim) addValues(seen map[string]bool, key string, t *catalog.InstanceType) {
	for i := range t.Offerings {
		o := &t.Offerings[i]
		if !o.Available || !c.AllowsOffering(o) {
			continue
		}
		switch value, ok := t.Labels[key]; {
		case key == corev1.LabelInstanceTypeStable:
			seen[t.Name] = true
		case key == corev1.LabelTopologyZone:
			seen[o.Zone] = true
		case key == catalog.LabelZoneID && o.ZoneID != "":
			seen[o.ZoneID] = true
		case key == labelCapacityType:
			seen[o.CapacityType] = true
		case ok:
			seen[value] = true
		}
	}
}
