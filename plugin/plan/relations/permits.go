package relations

import (
	"slices"

	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
)

// Permits reports whether the pods may go to a place; on a new node (fresh) rules by hostname are the packing's business (NodeRules).
func (re *Relations) Permits(p Part, at Lookup, fresh bool) bool {
	c := &re.concerns[p.Class]
	for _, i := range c.owned {
		r := &re.rules[i]
		if fresh && (isHost(r.key) || r.kind == DaemonAffinity) {
			continue
		}
		if v, ok := at(r.key); !r.allows(p, v, ok) {
			return false
		}
	}
	for _, i := range c.outranking {
		if v, ok := at(re.rules[i].key); ok && !re.rules[i].staysEven(v, p.N) {
			return false
		}
	}
	return !c.avoided(at, fresh)
}

// KeepsEven reports whether one more pod of the class leaves the closed spreads of others over hosts as even as they require.
func (re *Relations) KeepsEven(ci int, at Lookup) bool {
	for _, i := range re.hosts {
		r := &re.rules[i]
		if v, ok := at(r.key); ok && r.owner != ci && r.classes.Has(ci) && !r.staysEven(v, 1) {
			return false
		}
	}
	return true
}

// permitsAll reports whether the parts may go to a new node, all at once or one after the other.
func (re *Relations) permitsAll(parts []Part, at Lookup) bool {
	for _, p := range parts {
		if !re.Permits(p, at, true) {
			return len(parts) > 1 && re.inTurn(parts, at)
		}
	}
	return true
}

// inTurn reports whether the parts may come to a new node one after the other: each finds the pods there already that its affinity asks
// for, or needs none.
func (re *Relations) inTurn(parts []Part, at Lookup) bool {
	came := bitset.New(len(re.in.Classes))
	n := 0
	for range parts {
		before := n
		for _, p := range parts {
			if !came.Has(p.Class) && re.mayCome(p, came, at) {
				came.Add(p.Class)
				n++
			}
		}
		if n == before {
			break
		}
	}
	return n == len(parts)
}

// mayCome is Permits for a new node where pods of some classes are already.
func (re *Relations) mayCome(p Part, came bitset.Set, at Lookup) bool {
	for _, i := range re.concerns[p.Class].owned {
		r := &re.rules[i]
		if r.kind == DaemonAffinity {
			continue
		}
		if r.kind == Affinity && r.classes.Meets(came) {
			continue
		}
		v, ok := at(r.key)
		switch {
		case !isHost(r.key):
			if !r.allows(p, v, ok) {
				return false
			}
		case r.kind == Affinity:
			if r.total > 0 || !r.classes.Has(p.Class) {
				return false
			}
		}
	}
	return !re.concerns[p.Class].avoided(at, true)
}

// BestDomain returns the first of the domains that permits the parts, among those of equal rank the one with the fewest pods: of those that
// upset no spread of other pods if there are any. The domains are in the order in which they are wanted. It is -1 for none.
func (re *Relations) BestDomain(parts []Part, domains []Domain) int {
	upsets := func(at Lookup) bool {
		return slices.ContainsFunc(parts, func(p Part) bool { return re.concerns[p.Class].upsets(p.N, at) })
	}
	best, bestCount := -1, 0
	for _, even := range []bool{true, false} {
		for i := range domains {
			d := &domains[i]
			if best >= 0 && (d.Weight < domains[best].Weight || d.Rank > domains[best].Rank) {
				break
			}
			at := func(key string) (string, bool) { v, ok := d.Values[key]; return v, ok }
			count := 0
			for _, t := range re.concerns[parts[0].Class].topologies {
				count += t.rules * t.counts[d.Values[t.label]]
			}
			if best >= 0 && count >= bestCount || !re.permitsAll(parts, at) || even && upsets(at) {
				continue
			}
			best, bestCount = i, count
		}
		if best >= 0 {
			break
		}
	}
	return best
}
