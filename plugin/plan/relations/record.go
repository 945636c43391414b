package relations

import "slices"

// Record counts n pods of the class at a place; a negative n takes them out of the counts.
func (re *Relations) Record(ci, n int, at Lookup) {
	c := &re.concerns[ci]
	for _, t := range c.topologies {
		v, ok := at(t.label)
		if ok {
			t.counts[v] += n
		}
		// Where the label matters and the node has none, the pod is in no domain.
		if ok || !slices.Contains(c.keys, t.label) {
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

// RecordParts counts the parts n times in the domain with the values.
func (re *Relations) RecordParts(parts []Part, n int, values map[string]string) {
	at := func(key string) (string, bool) { v, ok := values[key]; return v, ok }
	for _, p := range parts {
		re.Record(p.Class, n*p.N, at)
	}
}

// Settle reports whether the pods that have a node, placed by class, still keep their rules after others were taken out of the counts. If
// not, most is lowered for the classes concerned: to what could be even, or to none if last.
func (re *Relations) Settle(placed, most []int, last bool) bool {
	settled := true
	for i := range re.rules {
		r := &re.rules[i]
		if r.soft || isHost(r.key) || placed[r.owner] == 0 {
			continue
		}
		over := r.over(placed[r.owner])
		if over == 0 {
			continue
		}
		settled = false
		most[r.owner] = max(placed[r.owner]-over, 0)
		if last {
			most[r.owner] = 0
		}
	}
	return settled
}
