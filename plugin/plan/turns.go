package plan

import (
	"slices"

	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
)

// inTurn says that the parts of the unit may come to a new node one after the other: each finds there already whom its affinity
// asks for, or needs nobody.
func (re *relations) inTurn(u *unit, at lookup) bool {
	came := bitset.New(len(re.classes))
	n := 0
	for range u.parts {
		before := n
		for _, p := range u.parts {
			if !came.Has(p.class) && re.mayCome(p, came, at) {
				came.Add(p.class)
				n++
			}
		}
		if n == before {
			break
		}
	}
	return n == len(u.parts)
}

// mayCome is permits on a new node where some are already.
func (re *relations) mayCome(p part, came bitset.Set, at lookup) bool {
	for _, i := range re.concerns[p.class].owned {
		r := &re.rules[i]
		if r.kind == attended {
			continue
		}
		if r.kind == affinity && r.classes.Meets(came) {
			continue
		}
		v, ok := at(r.key)
		switch {
		case !isHost(r.key):
			if !r.allows(p, v, ok) {
				return false
			}
		case r.kind == affinity:
			if r.total > 0 || !r.classes.Has(p.class) {
				return false
			}
		}
	}
	return !re.concerns[p.class].avoided(at, true)
}

// keys are the label keys that matter to any part of the unit.
func (re *relations) keys(u *unit) []string {
	var keys []string
	for _, p := range u.parts {
		for _, k := range re.keysOf(p.class) {
			if !slices.Contains(keys, k) {
				keys = append(keys, k)
			}
		}
	}
	return keys
}

func (re *relations) recordUnit(u *unit, n int, values map[string]string) {
	at := func(key string) (string, bool) { v, ok := values[key]; return v, ok }
	for _, p := range u.parts {
		re.record(p.class, n*p.n, at)
	}
}

// bestDomain is the cheapest domain that the unit is permitted in, among equals the emptiest: of those that upset no spread of other
// pods if there are any. It is -1 for none.
func (re *relations) bestDomain(u *unit, domains []domain) int {
	upsets := func(at lookup) bool {
		return slices.ContainsFunc(u.parts, func(p part) bool { return re.concerns[p.class].upsets(p.n, at) })
	}
	best, bestCount := -1, 0
	for _, even := range []bool{true, false} {
		for i := range domains {
			d := &domains[i]
			if best >= 0 && (d.weight < domains[best].weight || d.rank > domains[best].rank) {
				break
			}
			at := func(key string) (string, bool) { v, ok := d.values[key]; return v, ok }
			count := 0
			for _, t := range re.concerns[u.parts[0].class].tallies {
				count += t.rules * t.counts[d.values[t.key]]
			}
			if best >= 0 && count >= bestCount || !re.permitsAll(u, at) || even && upsets(at) {
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

func (re *relations) permitsAll(u *unit, at lookup) bool {
	for _, p := range u.parts {
		if !re.permits(p, at, true) {
			return len(u.parts) > 1 && re.inTurn(u, at)
		}
	}
	return true
}
