package plan

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"
)

// tally is how many pods rules count by the values of their key. Rules that count the same pods share one.
type tally struct {
	counts map[string]int
	total  int
	key    string
	// rules is how many share it.
	rules int
}

// joinTallies has rules share a tally that will stay equal: of the same key and members, where what exists counts the same.
func (re *relations) joinTallies() {
	index := map[string]*tally{}
	var key []byte
	for i := range re.rules {
		r := &re.rules[i]
		key = append(binary.AppendUvarint(key[:0], uint64(len(r.key))), r.key...)
		for _, w := range r.classes {
			key = binary.LittleEndian.AppendUint64(key, w)
		}
		key = binary.AppendVarint(key, int64(r.total))
		for _, v := range slices.Sorted(maps.Keys(r.counts)) {
			key = append(binary.AppendVarint(key, int64(r.counts[v])), v...)
			key = append(key, 0)
		}
		t, ok := index[string(key)]
		if !ok {
			t = r.tally
			t.key = r.key
			index[string(key)] = t
		}
		t.rules++
		r.tally = t
	}
}

// concern is what a class has to do with rules.
type concern struct {
	// owned are its rules by index, yields the spreads of more important pods over domains that count its own.
	owned, yields []int
	// tallies count its pods.
	tallies []*tally
	// counts are the spreads over domains that count its pods, avoids the anti-affinity that matches them, keeps those of both that it
	// owns: alike ones are one, with the owners of all.
	counts, avoids, keeps []*rule
	// keys are the label keys, hostname apart, that matter for where its pods go: by its own rules or by those that
	// count them. Sorted.
	keys []string
}

// findConcerns lists what concerns each class, once the rules are known.
func (re *relations) findConcerns() {
	seen := map[*tally]bool{}
	least := int32(math.MaxInt32)
	for ci := range re.classes {
		least = min(least, priority(re.classes[ci].pod))
	}
	for i := range re.rules {
		r := &re.rules[i]
		c := &re.concerns[r.owner]
		c.owned = append(c.owned, i)
		if priority(re.classes[r.owner].pod) > least && r.kind == spread && !r.soft && !isHost(r.key) {
			r.classes.Each(func(ci int) {
				if ci != r.owner && re.yields(ci, r.owner) {
					re.concerns[ci].yields = append(re.concerns[ci].yields, i)
				}
			})
		}
		if !seen[r.tally] {
			seen[r.tally] = true
			r.classes.Each(func(ci int) { re.concerns[ci].tallies = append(re.concerns[ci].tallies, r.tally) })
		}
	}
	groupAlike(re.rules, re.concerns)
	re.findKeys()
}

// groupAlike joins the spreads over domains that are judged alike, since they count the same pods over the same domains with the same
// skew, and the anti-affinity that matches the same pods. It lists for each class those that count its pods and those that it owns.
func groupAlike(rules []rule, concerns []concern) {
	index := map[string]*rule{}
	place := map[*tally]int{}
	for i := range rules {
		r := &rules[i]
		if r.kind != antiAffinity && (r.kind != spread || r.soft || isHost(r.key)) {
			continue
		}
		at, ok := place[r.tally]
		if !ok {
			at = len(place)
			place[r.tally] = at
		}
		key := fmt.Sprint(r.kind, at, r.maxSkew, r.minDomains, sortedKeys(r.domains))
		all := index[key]
		if all == nil {
			one := *r
			all, one.owners = &one, map[string]int{}
			index[key] = all
			r.classes.Each(func(ci int) {
				if c := &concerns[ci]; r.kind == antiAffinity {
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

// upsets reports whether n pods at the place leave a spread of other pods more uneven than those require. The scheduler lets them, but
// those others would then stand where it would not place them again.
func (c *concern) upsets(n int, at lookup) bool {
	return slices.ContainsFunc(c.counts, func(r *rule) bool {
		v, ok := at(r.key)
		return ok && !r.staysEven(v, n)
	})
}

// avoided reports whether pods whose anti-affinity matches the class are at the place already; on a new node (fresh) those by hostname are
// the packing's business.
func (c *concern) avoided(at lookup, fresh bool) bool {
	return slices.ContainsFunc(c.avoids, func(r *rule) bool {
		v, ok := at(r.key)
		return ok && r.owners[v] > 0 && (!fresh || !isHost(r.key))
	})
}

// yields says that pods of the class are less important than those of the other: they may not upset its spread.
func (re *relations) yields(ci, to int) bool {
	return priority(re.classes[ci].pod) < priority(re.classes[to].pod)
}

// findKeys lists the keys of the rules that concern each class.
func (re *relations) findKeys() {
	type whose struct {
		key     string
		classes *uint64
	}
	seen := map[whose]bool{}
	for i := range re.rules {
		r := &re.rules[i]
		if isHost(r.key) || r.kind == attended {
			continue
		}
		add := func(ci int) {
			if c := &re.concerns[ci]; !slices.Contains(c.keys, r.key) {
				c.keys = append(c.keys, r.key)
			}
		}
		add(r.owner)
		// Rules that speak of the same pods share the list of their classes.
		if of := (whose{r.key, &r.classes[0]}); !seen[of] {
			seen[of] = true
			r.classes.Each(add)
		}
	}
	for ci := range re.concerns {
		slices.Sort(re.concerns[ci].keys)
	}
}

// record counts n pods of the class at a place.
func (re *relations) record(ci, n int, at lookup) {
	c := &re.concerns[ci]
	for _, t := range c.tallies {
		v, ok := at(t.key)
		if ok {
			t.counts[v] += n
		}
		// Where the label matters and the node has none, the pod is in no domain.
		if ok || !slices.Contains(c.keys, t.key) {
			t.total += n
		}
	}
	for _, i := range c.owned {
		if v, ok := at(re.rules[i].key); ok {
			re.rules[i].owners[v] += n
		}
	}
	for _, r := range c.keeps {
		if v, ok := at(r.key); ok {
			r.owners[v] += n
		}
	}
}

// keysOf are the label keys that matter for where pods of the class go.
func (re *relations) keysOf(ci int) []string { return re.concerns[ci].keys }
