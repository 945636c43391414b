package plan

import (
	"encoding/binary"
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
	// keys are the label keys, hostname apart, that matter for where its pods go: by its own rules or by those that
	// count them. Sorted.
	keys []string
}

// findConcerns lists what concerns each class, once the rules are known.
func (m *model) findConcerns() {
	m.concerns = make([]concern, len(m.classes))
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
	m.findKeys()
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
}

// keysOf are the label keys that matter for where pods of the class go.
func (m *model) keysOf(ci int) []string { return m.concerns[ci].keys }
