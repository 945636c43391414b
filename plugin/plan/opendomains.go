package plan

import (
	"encoding/binary"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
	"github.com/slipway-k8s/slipway/plugin/plan/nodematch"
	"github.com/slipway-k8s/slipway/plugin/plan/relations"
)

// attend finds the affinity that daemon pods meet on new nodes: the class is kept to the offers whose nodes have them, if
// there are any.
func (od *openDomains) attend() {
	if len(od.fitter.daemons) == 0 {
		return
	}
	owned := map[int][]int{}
	rules := od.relations.Rules()
	for i := range rules {
		if r := &rules[i]; r.Kind() == relations.Affinity {
			owned[r.Owner()] = append(owned[r.Owner()], i)
		}
	}
	for ci, own := range owned {
		c := &od.classes[ci]
		near := c.fits.Clone()
		for _, i := range own {
			near.Intersect(od.fitter.daemonsFor(&rules[i]))
		}
		if !near.Meets(od.market.available) {
			continue
		}
		c.fits = near
		for _, i := range own {
			rules[i].MeetByDaemons()
		}
	}
}

// daemonsFor are the offers whose nodes have the label of the rule, and a daemon pod that it matches.
func (ft *fitter) daemonsFor(r *relations.Rule) bitset.Set {
	out := bitset.New(len(ft.market.offers))
	for i := range ft.daemons {
		if r.Matches(ft.daemons[i].pod) {
			out.Union(ft.daemons[i].fits)
		}
	}
	if r.OverHosts() {
		return out
	}
	return ft.market.each(out, func(oi int) bool { _, ok := ft.market.label(oi, r.Key()); return ok })
}

// openDomains adds to each spread the domains that a node could be launched into, as its inclusion policy sees nodes: by
// labels, whether or not one of them is large enough. A spread counts an empty zone that its pods cannot use, and so
// does the scheduler once anybody's node is there.
func (od *openDomains) openDomains() {
	found := map[string]map[string]bool{} // Spreads of many classes see the same.
	rules := od.relations.Rules()
	for i := range rules {
		r := &rules[i]
		if r.Kind() != relations.Spread || r.Soft() {
			continue
		}
		c := &od.classes[r.Owner()]
		if !od.market.newLabels[r.Key()] {
			continue
		}
		if r.OverHosts() {
			r.SetClosed(od.in.second && od.shut(c))
			continue
		}
		seen := od.counted(r)
		seen.Intersect(od.market.available)
		seen, _ = od.market.probation.spared(seen)
		at, known := domainsKey(seen, c.demands, r.Key())
		if known && found[at] != nil {
			r.AddDomains(found[at])
			continue
		}
		open := map[string]bool{}
		for oi := range od.market.offers {
			if seen.Has(oi) && (!od.in.second || od.market.withinLimits(oi)) {
				od.market.addValues(open, c.demands, oi, r.Key())
			}
		}
		r.AddDomains(open)
		if known {
			found[at] = open
		}
	}
}

// shut says that no node can be launched for the class. One that only a preference keeps it off could be.
func (od *openDomains) shut(c *class) bool {
	return c.want.pod == nil && !c.want.untainted &&
		od.market.each(c.fits, od.market.probation.buyable).Empty()
}

// domainsKey distinguishes spreads that see different domains; false for classes whose demands make them special.
func domainsKey(seen bitset.Set, demands []catalog.Requirements, key string) (string, bool) {
	if !modest(demands) {
		return "", false
	}
	b := make([]byte, 0, 8*len(seen)+len(key))
	for _, w := range seen {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return string(append(b, key...)), true
}

// counted are the offers whose nodes the spread counts by its inclusion policies.
func (od *openDomains) counted(r *relations.Rule) bitset.Set {
	c, seen := &od.classes[r.Owner()], bitset.New(len(od.market.offers))
	for pi := range od.market.pools {
		p := &od.market.pools[pi]
		_, tolerated := nodematch.Tolerates(c.pod.Spec.Tolerations, p.Taints)
		if !p.Ready || !tolerated && r.HonorsTaints() {
			continue
		}
		for _, term := range c.own {
			if !r.HonorsAffinity() {
				term = nil
			}
			seen.Union(od.market.matching(p, term))
		}
	}
	return seen
}

// softDomains are those that the owner's pods can be launched into now.
func (od *openDomains) softDomains() {
	rules := od.relations.Rules()
	for i := range rules {
		r := &rules[i]
		if !r.Soft() || r.OverHosts() {
			continue
		}
		c := &od.classes[r.Owner()]
		fits, _ := od.market.probation.spared(c.fits)
		open := map[string]bool{}
		for oi := range od.market.offers {
			if fits.Has(oi) && od.market.available.Has(oi) && od.market.withinLimits(oi) {
				od.market.addValues(open, c.demands, oi, r.Key())
			}
		}
		r.AddDomains(open)
	}
}

// openDomains finds the domains of relations that new nodes open.
type openDomains struct {
	in        *Input
	market    *market
	relations *relations.Relations
	fitter    *fitter
	classes   []class
}
