package plan

import (
	"encoding/binary"
	"fmt"
	"maps"
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
func (m *model) joinTallies() {
	index := map[string]*tally{}
	var key []byte
	for i := range m.rules {
		r := &m.rules[i]
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
	// owned are its rules by index, binding those that may keep it out of a domain.
	owned, binding []int
	// tallies count its pods.
	tallies []*tally
	// counts are the spreads over domains that count its pods, keeps those that it owns: alike ones are one, with the owners of all.
	counts, keeps []*rule
	// keys are the label keys, hostname apart, that matter for where its pods go: by its own rules or by those that
	// count them. Sorted.
	keys []string
}

// findConcerns lists what concerns each class, once the rules are known.
func (m *model) findConcerns() {
	seen := map[*tally]bool{}
	for i := range m.rules {
		r := &m.rules[i]
		c := &m.concerns[r.owner]
		c.owned, c.binding = append(c.owned, i), append(c.binding, i)
		if r.kind == antiAffinity || r.kind == spread && !r.soft && !isHost(r.key) {
			r.classes.each(func(ci int) {
				if ci != r.owner && (r.kind == antiAffinity || m.yields(ci, r.owner)) {
					m.concerns[ci].binding = append(m.concerns[ci].binding, i)
				}
			})
		}
		if !seen[r.tally] {
			seen[r.tally] = true
			r.classes.each(func(ci int) { m.concerns[ci].tallies = append(m.concerns[ci].tallies, r.tally) })
		}
	}
	groupSpreads(m.rules, m.concerns)
	m.findKeys()
}

// groupSpreads joins the spreads over domains that are judged alike, since they count the same pods over the same domains with the same
// skew, and lists for each class those that count its pods and those that it owns.
func groupSpreads(rules []rule, concerns []concern) {
	index := map[string]*rule{}
	place := map[*tally]int{}
	for i := range rules {
		r := &rules[i]
		if r.kind != spread || r.soft || isHost(r.key) {
			continue
		}
		at, ok := place[r.tally]
		if !ok {
			at = len(place)
			place[r.tally] = at
		}
		key := fmt.Sprint(at, r.maxSkew, r.minDomains, sortedKeys(r.domains))
		all := index[key]
		if all == nil {
			one := *r
			all, one.owners = &one, map[string]int{}
			index[key] = all
			r.classes.each(func(ci int) { concerns[ci].counts = append(concerns[ci].counts, all) })
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

// yields says that pods of the class are less important than those of the other: they may not upset its spread.
func (m *model) yields(ci, to int) bool {
	return priority(m.classes[ci].pod) < priority(m.classes[to].pod)
}

// findKeys lists the keys of the rules that concern each class.
func (m *model) findKeys() {
	type whose struct {
		key     string
		classes *uint64
	}
	seen := map[whose]bool{}
	for i := range m.rules {
		r := &m.rules[i]
		if isHost(r.key) || r.kind == attended {
			continue
		}
		add := func(ci int) {
			if c := &m.concerns[ci]; !slices.Contains(c.keys, r.key) {
				c.keys = append(c.keys, r.key)
			}
		}
		add(r.owner)
		// Rules that speak of the same pods share the list of their classes.
		if of := (whose{r.key, &r.classes[0]}); !seen[of] {
			seen[of] = true
			r.classes.each(add)
		}
	}
	for ci := range m.concerns {
		slices.Sort(m.concerns[ci].keys)
	}
}

// record counts n pods of the class at a place.
func (m *model) record(ci, n int, at lookup) {
	c := &m.concerns[ci]
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
		if v, ok := at(m.rules[i].key); ok {
			m.rules[i].owners[v] += n
		}
	}
	for _, r := range c.keeps {
		if v, ok := at(r.key); ok {
			r.owners[v] += n
		}
	}
}

// keysOf are the label keys that matter for where pods of the class go.
func (m *model) keysOf(ci int) []string { return m.concerns[ci].keys }
