package plan

import (
	"encoding/binary"
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
	"github.com/slipway-k8s/slipway/plugin/plan/nodematch"
)

// attend finds the affinity that daemon pods meet on new nodes: the class is kept to the offers whose nodes have them, if
// there are any.
func (od *openDomains) attend() {
	if len(od.fitter.daemons) == 0 {
		return
	}
	owned := map[int][]int{}
	for i := range od.relations.rules {
		if r := &od.relations.rules[i]; r.kind == affinity {
			owned[r.owner] = append(owned[r.owner], i)
		}
	}
	for ci, own := range owned {
		c := &od.classes[ci]
		near := c.fits.Clone()
		for _, i := range own {
			near.Intersect(od.fitter.daemonsFor(&od.relations.rules[i]))
		}
		if !near.Meets(od.market.available) {
			continue
		}
		c.fits = near
		for _, i := range own {
			od.relations.rules[i].kind = attended
		}
	}
}

// daemonsFor are the offers whose nodes have the label of the rule, and a daemon pod that it matches.
func (ft *fitter) daemonsFor(r *rule) bitset.Set {
	out := bitset.New(len(ft.market.offers))
	for i := range ft.daemons {
		if r.matches(ft.daemons[i].pod) {
			out.Union(ft.daemons[i].fits)
		}
	}
	if isHost(r.key) {
		return out
	}
	return ft.market.each(out, func(oi int) bool { _, ok := ft.market.label(oi, r.key); return ok })
}

// openDomains adds to each spread the domains that a node could be launched into, as its inclusion policy sees nodes: by
// labels, whether or not one of them is large enough. A spread counts an empty zone that its pods cannot use, and so
// does the scheduler once anybody's node is there.
func (od *openDomains) openDomains() {
	found := map[string]map[string]bool{} // Spreads of many classes see the same.
	for i := range od.relations.rules {
		r := &od.relations.rules[i]
		if r.kind != spread || r.soft {
			continue
		}
		c := &od.classes[r.owner]
		if !od.market.newLabels[r.key] {
			continue
		}
		if r.key == corev1.LabelHostname {
			if r.closed = od.in.second && od.shut(c); r.closed {
				od.relations.hosts = append(od.relations.hosts, i)
			}
			continue
		}
		seen := od.counted(r)
		seen.Intersect(od.market.available)
		seen, _ = od.market.probation.spared(seen)
		at, known := domainsKey(seen, c.demands, r.key)
		if known && found[at] != nil {
			maps.Copy(r.domains, found[at])
			continue
		}
		open := map[string]bool{}
		for oi := range od.market.offers {
			if seen.Has(oi) && (!od.in.second || od.market.withinLimits(oi)) {
				od.market.addValues(open, c.demands, oi, r.key)
			}
		}
		maps.Copy(r.domains, open)
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

// domainsKey tells spreads apart that see different domains; false for classes whose demands make them special.
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
func (od *openDomains) counted(r *rule) bitset.Set {
	c, seen := &od.classes[r.owner], bitset.New(len(od.market.offers))
	for pi := range od.market.pools {
		p := &od.market.pools[pi]
		_, tolerated := nodematch.Tolerates(c.pod.Spec.Tolerations, p.Taints)
		if policy := r.policy.NodeTaintsPolicy; !p.Ready || !tolerated && policy != nil && *policy == corev1.NodeInclusionPolicyHonor {
			continue
		}
		for _, term := range c.own {
			if policy := r.policy.NodeAffinityPolicy; policy != nil && *policy == corev1.NodeInclusionPolicyIgnore {
				term = nil
			}
			seen.Union(od.market.matching(p, term))
		}
	}
	return seen
}

// softDomains are those that the owner's pods can be launched into now.
func (od *openDomains) softDomains() {
	for i := range od.relations.rules {
		r := &od.relations.rules[i]
		if !r.soft || r.key == corev1.LabelHostname {
			continue
		}
		c := &od.classes[r.owner]
		fits, _ := od.market.probation.spared(c.fits)
		for oi := range od.market.offers {
			if fits.Has(oi) && od.market.available.Has(oi) && od.market.withinLimits(oi) {
				od.market.addValues(r.domains, c.demands, oi, r.key)
			}
		}
	}
}

// openDomains finds the domains of relations that new nodes open.
type openDomains struct {
	in        *Input
	market    *market
	relations *relations
	fitter    *fitter
	classes   []class
}
