package overlay

import (
	"cmp"
	"maps"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// dedicatedKey ends the key of a list at the prices of dedicated tenancy. No NodePool's name ends so.
const dedicatedKey = "//dedicated"

// Repriced are lists at the prices of dedicated tenancy that were made before, by key: what is made of the same list is the same list. The zero value is
// empty.
type Repriced map[string]repriced

type repriced struct{ from, to []catalog.InstanceType }

// Dedicated returns the result with a list of its own for each NodePool whose nodes have dedicated tenancy: such instances have their own prices. Where no
// price of them is known, the list stays that of shared tenancy. made has the lists of the last call, and gets those of this one.
func (r Result) Dedicated(in Input, made Repriced) Result {
	out := Result{Lists: maps.Clone(r.Lists), Keys: maps.Clone(r.Keys), Verdicts: r.Verdicts}
	used := map[string]bool{}
	for _, p := range in.Pools {
		if p.Labels[catalog.LabelInstanceTenancy] != catalog.TenancyDedicated {
			continue
		}
		from, overlaid := r.Lists[r.Keys[p.Name]]
		if !overlaid {
			from = in.Types[p.NodeClass]
		}
		key := cmp.Or(r.Keys[p.Name], p.NodeClass) + dedicatedKey
		list, ok := made[key]
		if !ok || len(from) == 0 || len(list.from) != len(from) || &list.from[0] != &from[0] {
			list = repriced{from, dedicated(from)}
		}
		if list.to == nil {
			continue
		}
		made[key], used[key] = list, true
		if out.Lists == nil {
			out.Lists = map[string][]catalog.InstanceType{}
		}
		if out.Keys == nil {
			out.Keys = map[string]string{}
		}
		out.Lists[key], out.Keys[p.Name] = list.to, key
	}
	maps.DeleteFunc(made, func(key string, _ repriced) bool { return !used[key] })
	return out
}

// dedicated returns the list at the prices of dedicated tenancy; nil if they are those of shared tenancy. A price that a NodeOverlay sets stays.
func dedicated(list []catalog.InstanceType) []catalog.InstanceType {
	var out []catalog.InstanceType
	for i := range list {
		share := list[i].DedicatedShare
		if share == 0 {
			continue
		}
		if out == nil {
			out = append([]catalog.InstanceType{}, list...)
		}
		fixed := list[i].Charges.Fixed()
		offerings := append([]catalog.Offering{}, list[i].Offerings...)
		for k := range offerings {
			if o := &offerings[k]; !o.Overlaid {
				o.Price = fixed + (o.Price-fixed)*(1+share)
			}
		}
		out[i].Offerings = offerings
	}
	return out
}
