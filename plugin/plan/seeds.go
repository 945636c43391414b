package plan

import (
	"cmp"
	"slices"

	"github.com/slipway-k8s/slipway/plugin/plan/relations"
)

// unwelcome raises a domain's rank above that of any price, and of any weight of a NodePool.
const unwelcome = 1 << 20

// byFreedom puts first the units that others must join, or that must join others, in the order of how many domains they
// can be in: a pod whose volume is in one zone decides for those that could be anywhere.
func (pl *placer) byFreedom(todo []unit) {
	joins := pl.relations.Joined()
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
		if slices.ContainsFunc(todo[i].parts, func(p relations.Part) bool { return joins.Has(p.Class) }) {
			all[i].domains = len(pl.domainsOf(&todo[i], pl.relations.KeysOf(todo[i].parts)))
		}
	}
	slices.SortStableFunc(all, func(a, b ranked) int { return cmp.Compare(a.domains, b.domains) })
	for i := range all {
		todo[i] = all[i].unit
	}
}

// joining are pods that have to join others by one label, and where they can be.
type joining struct {
	relations.Joining
	// reach are the values of the label that pods of each owner can be launched into; nil before they are asked for.
	reach []map[string]bool
}

func newJoining(re *relations.Relations) []joining {
	var out []joining
	for _, j := range re.Joinings() {
		out = append(out, joining{Joining: j})
	}
	return out
}

// helpful ranks last the domains where pods that have to join the unit cannot be; else they stay in their order.
func (pl *placer) helpful(u *unit, domains []relations.Domain) {
	changed := false
	for i := range pl.memo.joining {
		j := &pl.memo.joining[i]
		if j.Placed() || !slices.ContainsFunc(u.parts, func(p relations.Part) bool { return j.Classes.Has(p.Class) }) {
			continue
		}
		if j.reach == nil {
			for _, ci := range j.Owners {
				j.reach = append(j.reach, pl.reach(ci, j.Key))
			}
		}
		for at, owner := range j.Owners {
			can, self := j.reach[at], j.Classes.Has(owner)
			if len(can) == 0 || slices.ContainsFunc(u.parts, func(p relations.Part) bool { return p.Class == owner }) {
				continue
			}
			for d := range domains {
				// Out of all domains the pod is no help, and no hindrance to those that have to be together.
				if v, ok := domains[d].Values[j.Key]; ok && !can[v] || !ok && !self {
					domains[d].Rank += unwelcome
					changed = true
				}
			}
		}
	}
	if changed {
		slices.SortStableFunc(domains, func(a, b relations.Domain) int { return cmp.Compare(a.Rank/unwelcome, b.Rank/unwelcome) })
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
		if pl.market.probation.buyable(oi) {
			pl.market.addValues(out, c.demands, oi, key)
		}
	})
	return out
}
