package relations

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// Index lists for each class the rules that concern it. It is called once, when the rules are complete, and before any question about places.
func (re *Relations) Index() {
	seen := map[*topologyCounts]bool{}
	least := int32(math.MaxInt32)
	for ci := range re.in.Classes {
		least = min(least, re.in.Classes[ci].Priority)
	}
	for i := range re.rules {
		r := &re.rules[i]
		if r.kind == Spread && !r.soft && isHost(r.key) && r.closed {
			re.hosts = append(re.hosts, i)
		}
		c := &re.concerns[r.owner]
		c.owned = append(c.owned, i)
		if re.in.Classes[r.owner].Priority > least && r.kind == Spread && !r.soft && !isHost(r.key) {
			r.classes.Each(func(ci int) {
				if ci != r.owner && re.Outranks(r.owner, ci) {
					re.concerns[ci].outranking = append(re.concerns[ci].outranking, i)
				}
			})
		}
		if !seen[r.topologyCounts] {
			seen[r.topologyCounts] = true
			r.classes.Each(func(ci int) { re.concerns[ci].topologies = append(re.concerns[ci].topologies, r.topologyCounts) })
		}
	}
	groupAlike(re.rules, re.concerns)
	findKeys(re.rules, re.concerns)
}

// groupAlike joins the spreads over domains that are judged alike, since they count the same pods over the same domains with the same
// skew, and the anti-affinity that matches the same pods. It lists for each class those that count its pods and those that it owns.
func groupAlike(rules []Rule, concerns []concern) {
	index := map[string]*Rule{}
	place := map[*topologyCounts]int{}
	for i := range rules {
		r := &rules[i]
		if r.kind != AntiAffinity && (r.kind != Spread || r.soft || isHost(r.key)) {
			continue
		}
		at, ok := place[r.topologyCounts]
		if !ok {
			at = len(place)
			place[r.topologyCounts] = at
		}
		key := fmt.Sprint(r.kind, at, r.maxSkew, r.minDomains, slices.Sorted(maps.Keys(r.domains)))
		all := index[key]
		if all == nil {
			one := *r
			all, one.owners = &one, map[string]int{}
			index[key] = all
			r.classes.Each(func(ci int) {
				if c := &concerns[ci]; r.kind == AntiAffinity {
					c.avoids = append(c.avoids, all)
				} else {
					c.counts = append(c.counts, all)
				}
			})
		}
		for v, n := range r.owners {
			all.owners[v] += n
		}
		if c := &concerns[r.owner]; !slices.Contains(c.keeps, all) {
			c.keeps = append(c.keeps, all)
		}
	}
}

// findKeys lists the keys of the rules that concern each class.
func findKeys(rules []Rule, concerns []concern) {
	type members struct {
		key     string
		classes *uint64
	}
	seen := map[members]bool{}
	for i := range rules {
		r := &rules[i]
		if isHost(r.key) || r.kind == DaemonAffinity {
			continue
		}
		add := func(ci int) {
			if c := &concerns[ci]; !slices.Contains(c.keys, r.key) {
				c.keys = append(c.keys, r.key)
			}
		}
		add(r.owner)
		// Rules that match the same pods share the list of their classes.
		if of := (members{r.key, &r.classes[0]}); !seen[of] {
			seen[of] = true
			r.classes.Each(add)
		}
	}
	for ci := range concerns {
		slices.Sort(concerns[ci].keys)
	}
}
