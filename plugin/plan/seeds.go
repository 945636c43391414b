package plan

import (
	"cmp"
	"slices"

	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
)

// unwelcome raises a domain's rank above that of any price.
const unwelcome = 1 << 20

// byFreedom puts first the units that others must join, or that must join others, in the order of how many domains they
// can be in: a pod whose volume is in one zone decides for those that could be anywhere.
func (pl *placer) byFreedom(todo []unit) {
	joins := bitset.New(len(pl.classes))
	for i := range pl.relations.rules {
		if r := &pl.relations.rules[i]; r.kind == affinity && !isHost(r.key) {
			joins.Add(r.owner)
			joins.Union(r.classes)
		}
	}
	if joins.Empty() {
		return
	}
	type ranked struct {
		unit
		domains int
	}
	all := make([]ranked, len(todo))
	for i := range todo {
		all[i] = ranked{todo[i], len(pl.market.offers) + 1}
		if slices.ContainsFunc(todo[i].parts, func(p part) bool { return joins.Has(p.class) }) {
			all[i].domains = len(pl.domainsOf(&todo[i], pl.relations.keys(&todo[i])))
		}
	}
	slices.SortStableFunc(all, func(a, b ranked) int { return cmp.Compare(a.domains, b.domains) })
	for i := range all {
		todo[i] = all[i].unit
	}
}

// joining are pods that have to join others by one label: classes whose affinity speaks of the same pods.
type joining struct {
	key     string
	classes bitset.Set
	tally   *tally
	// owners are the classes that have to join.
	owners []int
	// reach are the values of the label that pods of each owner can be launched into; nil before they are asked for.
	reach []map[string]bool
}

// findJoining groups the rules of affinity over domains, but those whose pods have somewhere to go: pods that they match exist.
func (re *relations) findJoining() []joining {
	var out []joining
	index := map[*tally]int{}
	for i := range re.rules {
		r := &re.rules[i]
		if r.kind != affinity || isHost(r.key) || r.total > 0 {
			continue
		}
		at, ok := index[r.tally]
		if !ok {
			at = len(out)
			index[r.tally] = at
			out = append(out, joining{key: r.key, classes: r.classes, tally: r.tally})
		}
		out[at].owners = append(out[at].owners, r.owner)
	}
	return out
}

// helpful ranks last the domains where pods that have to join the unit cannot be.
func (pl *placer) helpful(u *unit, domains []domain) {
	changed := false
	for i := range pl.memo.joining {
		j := &pl.memo.joining[i]
		if j.tally.total > 0 || !slices.ContainsFunc(u.parts, func(p part) bool { return j.classes.Has(p.class) }) {
			continue
		}
		if j.reach == nil {
			for _, ci := range j.owners {
				j.reach = append(j.reach, pl.reach(ci, j.key))
			}
		}
		for at, owner := range j.owners {
			can, self := j.reach[at], j.classes.Has(owner)
			if len(can) == 0 || slices.ContainsFunc(u.parts, func(p part) bool { return p.class == owner }) {
				continue
			}
			for d := range domains {
				// Out of all domains the pod is no help, and no hindrance to those that keep each other company.
				if v, ok := domains[d].values[j.key]; ok && !can[v] || !ok && !self {
					domains[d].rank += unwelcome
					changed = true
				}
			}
		}
	}
	if changed {
		slices.SortStableFunc(domains, func(a, b domain) int { return cmp.Compare(a.rank, b.rank) })
	}
}

// reach returns the values of the label that pods of the class can be launched into.
func (pl *placer) reach(ci int, key string) map[string]bool {
	c, out := &pl.classes[ci], map[string]bool{}
	if modest(c.demands) {
		for _, p := range pl.placesOf(c.demands, []string{key}) {
			if !p.set.Meets(c.fits) {
				continue
			}
			for _, values := range p.values {
				if v, ok := values[key]; ok {
					out[v] = true
				}
			}
		}
		return out
	}
	c.fits.Each(func(oi int) {
		if pl.market.available.Has(oi) {
			pl.market.addValues(out, c.demands, oi, key)
		}
	})
	return out
}
