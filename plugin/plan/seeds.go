package plan

import (
	"cmp"
	"slices"
)

// unwelcome raises a domain's rank above that of any price.
const unwelcome = 1 << 20

// byFreedom puts first the units that others must join, or that must join others, in the order of how many domains they
// can be in: a pod whose volume is in one zone decides for those that could be anywhere.
func (m *model) byFreedom(todo []unit) {
	joins := newBits(len(m.classes))
	for i := range m.rules {
		if r := &m.rules[i]; r.kind == affinity && !isHost(r.key) {
			joins.set(r.owner)
			joins.or(r.classes)
		}
	}
	if joins.empty() {
		return
	}
	type ranked struct {
		unit
		domains int
	}
	all := make([]ranked, len(todo))
	for i := range todo {
		all[i] = ranked{todo[i], len(m.offers) + 1}
		if slices.ContainsFunc(todo[i].parts, func(p part) bool { return joins.has(p.class) }) {
			all[i].domains = len(m.domainsOf(&todo[i], m.keys(&todo[i])))
		}
	}
	slices.SortStableFunc(all, func(a, b ranked) int { return cmp.Compare(a.domains, b.domains) })
	for i := range all {
		todo[i] = all[i].unit
	}
}

// helpful ranks last the domains where pods that have to join the unit cannot be.
func (m *model) helpful(u *unit, domains []domain) {
	changed := false
	for i := range m.rules {
		r := &m.rules[i]
		if r.kind != affinity || isHost(r.key) || r.total > 0 {
			continue
		}
		mine := slices.ContainsFunc(u.parts, func(p part) bool { return r.classes.has(p.class) })
		owner := slices.ContainsFunc(u.parts, func(p part) bool { return p.class == r.owner })
		if !mine || owner {
			continue
		}
		can, self := m.reach(r.owner, r.key), r.classes.has(r.owner)
		for d := range domains {
			// Out of all domains the pod is no help, and no hindrance to those that keep each other company.
			if v, ok := domains[d].values[r.key]; len(can) > 0 && (ok && !can[v] || !ok && !self) {
				domains[d].rank += unwelcome
				changed = true
			}
		}
	}
	if changed {
		slices.SortStableFunc(domains, func(a, b domain) int { return cmp.Compare(a.rank, b.rank) })
	}
}

// reach returns the values of the label that pods of the class can be launched into.
func (m *model) reach(ci int, key string) map[string]bool {
	c := &m.classes[ci]
	known, plain := domainsKey(c.fits, c.demands, key)
	if out, ok := m.memo.reach[known]; plain && ok {
		return out
	}
	out := map[string]bool{}
	c.fits.each(func(oi int) {
		if m.available.has(oi) {
			m.addValues(out, c.demands, oi, key)
		}
	})
	if plain && m.memo.reach != nil {
		m.memo.reach[known] = out
	}
	return out
}
