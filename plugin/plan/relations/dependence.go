package relations

import (
	"slices"

	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
)

// Dependent returns the classes with required affinity, and those with a hard spread over domains.
func (re *Relations) Dependent() (joining, spreading bitset.Set) {
	joining, spreading = bitset.New(len(re.in.Classes)), bitset.New(len(re.in.Classes))
	for i := range re.rules {
		switch r := &re.rules[i]; {
		case r.kind == Affinity:
			joining.Add(r.owner)
		case r.kind == Spread && !r.soft && !isHost(r.key):
			spreading.Add(r.owner)
		}
	}
	return joining, spreading
}

// Joined returns the classes that affinity over domains binds to each other: its owners and those that it matches.
func (re *Relations) Joined() bitset.Set {
	out := bitset.New(len(re.in.Classes))
	for i := range re.rules {
		if r := &re.rules[i]; r.kind == Affinity && !isHost(r.key) {
			out.Add(r.owner)
			out.Union(r.classes)
		}
	}
	return out
}

// Joining is pods that have to join others by one label: classes whose affinity matches the same pods.
type Joining struct {
	// Key of the label.
	Key string
	// Classes that the affinity matches.
	Classes bitset.Set
	// Owners are the classes that have to join.
	Owners []int

	counts *topologyCounts
}

// Placed reports whether a pod that the others have to join is placed.
func (j *Joining) Placed() bool { return j.counts.total > 0 }

// Joinings groups the rules of affinity over domains, but those whose pods have somewhere to go: pods that they match exist.
func (re *Relations) Joinings() []Joining {
	var out []Joining
	index := map[*topologyCounts]int{}
	for i := range re.rules {
		r := &re.rules[i]
		if r.kind != Affinity || isHost(r.key) || r.total > 0 {
			continue
		}
		at, ok := index[r.topologyCounts]
		if !ok {
			at = len(out)
			index[r.topologyCounts] = at
			out = append(out, Joining{Key: r.key, Classes: r.classes, counts: r.topologyCounts})
		}
		out[at].Owners = append(out[at].Owners, r.owner)
	}
	return out
}

// ApartBy reports whether anti-affinity keeps the parts from other pods by the key, and no spread counts its values.
func (re *Relations) ApartBy(parts []Part, key string) bool {
	apart := false
	for i := range re.rules {
		r := &re.rules[i]
		if r.key != key {
			continue
		}
		if r.kind == Spread {
			return false
		}
		apart = apart || r.kind == AntiAffinity && slices.ContainsFunc(parts, func(p Part) bool { return r.owner == p.Class || r.classes.Has(p.Class) })
	}
	return apart && !isHost(key)
}

// Alone reports whether only pods of the parts, on one node, are counted by the rules that concern them over some keys: whichever domain
// the node comes up in, they are the first.
func (re *Relations) Alone(parts []Part, some func(key string) bool) bool {
	for i := range re.rules {
		r := &re.rules[i]
		if !some(r.key) || r.kind == DaemonAffinity {
			continue
		}
		members, owners, concerned := 0, 0, false
		for _, p := range parts {
			if r.classes.Has(p.Class) {
				members += p.N
				concerned = true
			}
			if r.owner == p.Class {
				owners += p.N
				concerned = true
			}
		}
		if !concerned {
			continue
		}
		for _, n := range r.owners {
			owners -= n
		}
		if r.total != members || owners != 0 {
			return false
		}
	}
	return true
}

// Tied returns the classes of the rules over some keys that concern any of the classes.
func (re *Relations) Tied(classes []int, some func(key string) bool) bitset.Set {
	out := bitset.New(len(re.in.Classes))
	for i := range re.rules {
		r := &re.rules[i]
		if some(r.key) && slices.ContainsFunc(classes, func(ci int) bool { return ci == r.owner || r.classes.Has(ci) }) {
			out.Add(r.owner)
			out.Union(r.classes)
		}
	}
	return out
}

// Needed reports whether affinity or spread of a class that is not gone counts pods of the class.
func (re *Relations) Needed(ci int, gone func(ci int) bool) bool {
	return slices.ContainsFunc(re.rules, func(r Rule) bool {
		return (r.kind == Affinity || r.kind == Spread) && r.classes.Has(ci) && !gone(r.owner)
	})
}
