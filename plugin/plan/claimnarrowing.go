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
