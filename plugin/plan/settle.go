package plan

import corev1 "k8s.io/api/core/v1"

// settle takes the units that found no node out of the counts, and says whether the pods that have one still keep their
// rules. If not, most is lowered for the classes concerned: to what could be even, or to none if last.
func (re *relations) settle(units []unit, placed, most []int, last bool) bool {
	lost := false
	for i := range units {
		if u := &units[i]; u.count > 0 {
			re.recordUnit(u, -u.count, u.domain)
			lost = true
		}
	}
	settled := true
	for i := range re.rules {
		r := &re.rules[i]
		if !lost || r.soft || r.key == corev1.LabelHostname || placed[r.owner] == 0 {
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

// over is how many of the owner's pods, up to n, break the rule.
func (r *rule) over(n int) int {
	over := 0
	switch r.kind {
	case spread:
		least := r.least("", 0)
		for v, c := range r.counts {
			if r.owners[v] > 0 {
				over += max(c-least-r.maxSkew, 0)
			}
		}
	case affinity:
		for v, c := range r.owners {
			if c > 0 && r.counts[v] == 0 {
				over += c
			}
		}
	case antiAffinity, attended:
	}
	return min(over, n)
}
