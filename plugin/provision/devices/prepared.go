package devices

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan"
)

// request has the pods request the resources of their devices, and keeps those of different claims apart.
func (p *Prepared) request() {
	names := slices.Sorted(maps.Keys(p.needs))
	for _, name := range names {
		for _, i := range p.needs[name].classes {
			c := &p.Classes[i]
			c.Pod = requesting(c.Pod, name)
			for _, other := range names {
				if other == name {
					continue
				}
				for _, j := range p.needs[other].classes {
					p.Rejected = append(p.Rejected, plan.Rejection{
						ClassKey: c.Key, With: []string{p.Classes[j].Key}, Reason: "pods with different ResourceClaims do not share a new node",
					})
				}
			}
		}
	}
}

// requesting returns a copy of the pod whose first container requests one of the resource.
func requesting(pod *corev1.Pod, name corev1.ResourceName) *corev1.Pod {
	out := *pod
	out.Spec.Containers = slices.Clone(pod.Spec.Containers)
	first := &out.Spec.Containers[0].Resources
	one := resource.MustParse("1")
	add := func(list corev1.ResourceList) corev1.ResourceList {
		list = maps.Clone(list)
		if list == nil {
			list = corev1.ResourceList{}
		}
		list[name] = one
		return list
	}
	first.Requests, first.Limits = add(first.Requests), add(first.Limits)
	return &out
}

// offer adds the resources to the instance types that have the devices.
func (p *Prepared) offer() {
	types := maps.Clone(p.Catalog.InstanceTypes)
	for class := range types {
		list := types[class]
		for i := range list {
			at := place{class, list[i].Name}
			var more corev1.ResourceList
			for name, n := range p.needs {
				if found, ok := n.by[at]; ok {
					if more == nil {
						more = maps.Clone(list[i].Allocatable)
					}
					more[name] = *resource.NewQuantity(int64(found.pods), resource.DecimalSI)
				}
			}
			if more == nil {
				continue
			}
			if &list[0] == &p.Catalog.InstanceTypes[class][0] {
				list = slices.Clone(list)
				types[class] = list
			}
			list[i].Allocatable = more
		}
	}
	p.Catalog.InstanceTypes = types
}

// Finish names the drivers of each claim, and takes the resources that stand for devices out of the plan. pools are those of the
// catalog.
func (p *Prepared) Finish(out *plan.Plan, pools map[string]catalog.NodePool) {
	for i := range out.Claims {
		c := &out.Claims[i]
		c.DRADrivers = p.drivers(c, listOf(pools[c.NodePool]))
		c.Requests, c.Allocatable = without(c.Requests), without(c.Allocatable)
	}
	for i := range out.Unplaced {
		u := &out.Unplaced[i]
		u.Reasons = slices.Clone(u.Reasons)
		for j := range u.Reasons {
			for name, n := range p.needs {
				if strings.Contains(u.Reasons[j].Message, string(name)) {
					u.Reasons[j].Message = fmt.Sprintf("asks for the ResourceClaim %q: no instance type of the pool is known to have devices that satisfy it", n.name)
				}
			}
		}
	}
}

// drivers returns the drivers whose devices the claim's pods need on each of its instance types, sorted.
func (p *Prepared) drivers(c *plan.Claim, list string) []string {
	var out sets.Set[string]
	for name, n := range p.needs {
		if _, asked := c.Requests[name]; !asked {
			continue
		}
		for _, t := range c.Alternatives {
			found, ok := n.by[place{list, t}]
			switch {
			case !ok:
			case out == nil:
				out = found.drivers.Clone()
			default:
				out = out.Intersection(found.drivers)
			}
		}
	}
	return sets.List(out)
}

func without(list corev1.ResourceList) corev1.ResourceList {
	out := maps.Clone(list)
	maps.DeleteFunc(out, func(name corev1.ResourceName, _ resource.Quantity) bool {
		return strings.HasPrefix(string(name), resourcePrefix)
	})
	return out
}
