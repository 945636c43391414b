package overlay

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// change is what the rules so far make of one instance type.
type change struct {
	// prices by index of the offering; empty if no rule has a price.
	prices []priced
	// capacity by resource.
	capacity map[corev1.ResourceName]*amount
}

// priced is the price that counts for an offering; nil for AWS's. last is the rule that was applied last, which has the lowest weight.
type priced struct {
	price *price
	last  *ruled
}

// amount is the quantity that counts for a resource; last is as in priced.
type amount struct {
	quantity resource.Quantity
	last     *ruled
}

// conflict describes the first conflict of a rule with one of the same weight; empty if there is none.
func (v *variant) conflict(rule *ruled, touched []touch) string {
	for _, t := range touched {
		c := v.changes[t.at]
		if c == nil {
			continue
		}
		if rule.price != nil && len(c.prices) > 0 {
			for _, i := range t.offerings {
				if p := c.prices[i]; p.price != nil && p.last.weight == rule.weight {
					o := &v.base[t.at].Offerings[i]
					return fmt.Sprintf("%s has weight %d too, and a price for %s %s in %s", p.last.name, rule.weight, v.base[t.at].Name, o.CapacityType, o.Zone)
				}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(rule.capacity)) {
			if a := c.capacity[name]; a != nil && a.last.weight == rule.weight {
				return fmt.Sprintf("%s has weight %d too, and %s for %s", a.last.name, rule.weight, name, v.base[t.at].Name)
			}
		}
	}
	return ""
}

// apply records a rule without conflicts.
func (v *variant) apply(rule *ruled, touched []touch) {
	for _, t := range touched {
		c := v.changes[t.at]
		if c == nil {
			c = &change{capacity: map[corev1.ResourceName]*amount{}}
			v.changes[t.at] = c
		}
		if rule.price != nil {
			if len(c.prices) == 0 {
				c.prices = make([]priced, len(v.base[t.at].Offerings))
			}
			for _, i := range t.offerings {
				c.prices[i].price, c.prices[i].last = cmp.Or(c.prices[i].price, rule.price), rule
			}
		}
		for name, q := range rule.capacity {
			if c.capacity[name] == nil {
				c.capacity[name] = &amount{quantity: q}
			}
			c.capacity[name].last = rule
		}
	}
}

// list returns the instance types with all changes; nil if there are none.
func (v *variant) list() []catalog.InstanceType {
	changed := false
	for _, c := range v.changes {
		changed = changed || c != nil && len(c.prices)+len(c.capacity) > 0
	}
	if !changed {
		return nil
	}
	out := slices.Clone(v.base)
	for at, c := range v.changes {
		if c != nil {
			c.reprice(&out[at])
			c.equip(&out[at])
		}
	}
	return out
}

// reprice replaces the prices of instances. What a node costs beside its instance stays.
func (c *change) reprice(t *catalog.InstanceType) {
	if len(c.prices) == 0 {
		return
	}
	t.Offerings = slices.Clone(t.Offerings)
	beside := t.Charges.Fixed()
	for i, p := range c.prices {
		if o := &t.Offerings[i]; p.price != nil {
			o.Price, o.Overlaid = p.price.of(o.Price-beside)+beside, true
		}
	}
}

// equip adds resources. Huge pages are taken from the memory that is left to pods, as in Karpenter and in the kubelet.
func (c *change) equip(t *catalog.InstanceType) {
	if len(c.capacity) == 0 {
		return
	}
	t.Overlaid = true
	t.Capacity, t.Allocatable = maps.Clone(t.Capacity), maps.Clone(t.Allocatable)
	if t.Capacity == nil {
		t.Capacity = corev1.ResourceList{}
	}
	if t.Allocatable == nil {
		t.Allocatable = corev1.ResourceList{}
	}
	for _, name := range slices.Sorted(maps.Keys(c.capacity)) {
		q := c.capacity[name].quantity
		t.Capacity[name], t.Allocatable[name] = q, q
		if strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
			memory := t.Allocatable.Memory().DeepCopy()
			memory.Sub(q)
			if memory.Sign() < 0 {
				memory.Set(0)
			}
			t.Allocatable[corev1.ResourceMemory] = memory
		}
	}
}
