package view

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/launcher/catalog/ec2error"
)

// Fault is what EC2 refuses now: offerings of one zone and capacity type with the same error, which are tried again at the same time.
type Fault struct {
	// Code is EC2's error code, such as InsufficientInstanceCapacity; empty where it is not known: a zonal shift, a reservation that is full.
	Code ec2error.Code `json:"code,omitempty"`
	// Zone of the offerings.
	Zone string `json:"zone"`
	// CapacityType of the offerings.
	CapacityType string `json:"capacityType"`
	// InstanceTypes of the offerings, by name; at most 20 among faults, all beside prices.
	InstanceTypes []string `json:"instanceTypes"`
	// More is how many instance types more there are.
	More int `json:"more,omitempty"`
	// Since is when EC2 refused the first of them.
	Since time.Time `json:"since,omitzero"`
	// Attempts is how often it has refused the one that was tried most.
	Attempts int `json:"attempts,omitempty"`
	// Until is when they are tried again; zero where that is not known.
	Until time.Time `json:"until,omitzero"`
}

// mostTypes bounds the instance types that a Fault names.
const mostTypes = 20

// Faults returns what EC2 refuses at a time, of the instance types by EC2NodeClass: what is tried again last comes first. Each names at most 20 of its
// instance types.
func Faults(byClass map[string][]catalog.InstanceType, now time.Time) []Fault {
	out := refused(byClass, now)
	for i := range out {
		f := &out[i]
		shown := min(len(f.InstanceTypes), mostTypes)
		f.InstanceTypes, f.More = f.InstanceTypes[:shown], len(f.InstanceTypes)-shown
	}
	return out
}

// refused returns what EC2 refuses at a time, with all instance types. Offerings that are free of refusals and not available are not part of it: EC2
// does not sell them.
func refused(byClass map[string][]catalog.InstanceType, now time.Time) []Fault {
	type key struct {
		code               ec2error.Code
		zone, capacityType string
		until              int64
	}
	found := map[key]*Fault{}
	for _, types := range byClass {
		for i := range types {
			for _, o := range types[i].Offerings {
				if o.Available || !o.UnavailableUntil.After(now) {
					continue
				}
				k := key{o.Refusal.Code, o.Zone, o.CapacityType, o.UnavailableUntil.Unix()}
				f := found[k]
				if f == nil {
					f = &Fault{Code: k.code, Zone: k.zone, CapacityType: k.capacityType, Since: o.Refusal.Since, Until: o.UnavailableUntil}
					found[k] = f
				}
				if !slices.Contains(f.InstanceTypes, types[i].Name) { // Two classes have the same types.
					f.InstanceTypes = append(f.InstanceTypes, types[i].Name)
				}
				f.Attempts = max(f.Attempts, o.Refusal.Attempts)
				if o.Refusal.Since.Before(f.Since) {
					f.Since = o.Refusal.Since
				}
			}
		}
	}
	out := make([]Fault, 0, len(found))
	for _, f := range found {
		slices.Sort(f.InstanceTypes)
		out = append(out, *f)
	}
	slices.SortFunc(out, func(a, b Fault) int {
		return cmp.Or(b.Until.Compare(a.Until), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.CapacityType, b.CapacityType), cmp.Compare(a.Code, b.Code),
			cmp.Compare(strings.Join(a.InstanceTypes, " "), strings.Join(b.InstanceTypes, " ")))
	})
	return out
}
