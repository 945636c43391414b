package plan

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
	"github.com/slipway-k8s/slipway/plugin/plan/nodematch"
	"github.com/slipway-k8s/slipway/plugin/plan/relations"
)

// fit finds the offers whose nodes can run one pod of the class by its labels, taints, ports and resources, and what it demands of
// the open keys of each pool.
func (ft *fitter) fit(c *class) (bitset.Set, []catalog.Requirements) {
	out, demands := bitset.New(len(ft.market.offers)), make([]catalog.Requirements, len(ft.market.pools))
	for pi := range ft.market.pools {
		p := &ft.market.pools[pi]
		if !c.enters(p) {
			continue
		}
		var got bitset.Set
		got, demands[pi] = ft.fitPool(c, p)
		out.Union(got)
	}
	return out, demands
}

// enters says that the pool launches nodes, and that nothing but labels, ports, resources and other pods can keep the class off them.
func (c *class) enters(p *pool) bool {
	return c.tolerates(p.Taints) && p.Ready && p.broken == nil && c.broken == nil && c.lacks == ""
}

// tolerates says that the taints let the class in, those with the effect PreferNoSchedule included where that is wanted.
func (c *class) tolerates(taints []corev1.Taint) bool {
	if c.want.untainted && !nodematch.ToleratesPreferred(c.pod.Spec.Tolerations, taints) {
		return false
	}
	_, ok := nodematch.Tolerates(c.pod.Spec.Tolerations, taints)
	return ok
}

// fitPool tries the alternatives of the class in their order. Those that demand the same of the open keys count
// together: the first one that fits, and can be had, decides which.
func (ft *fitter) fitPool(c *class, p *pool) (bitset.Set, catalog.Requirements) {
	if found, demand := ft.fitTerms(c, p, true); len(c.terms) < 2 || !found.Empty() {
		return found, demand
	}
	return ft.fitTerms(c, p, false)
}

// fitTerms is fitPool; with buyable, of several alternatives only those of which a node can be launched now.
func (ft *fitter) fitTerms(c *class, p *pool, buyable bool) (bitset.Set, catalog.Requirements) {
	found := bitset.New(len(ft.market.offers))
	var demand catalog.Requirements
	for _, term := range c.terms {
		one, want := ft.fitTerm(c, p, term)
		if one.Empty() || buyable && len(c.terms) > 1 && ft.market.each(one, ft.market.probation.buyable).Empty() {
			continue
		}
		if found.Empty() {
			demand = want
		}
		if sameDemand(demand, want) {
			found.Union(one)
		}
	}
	return found, demand
}

// fitTerm is fitPool for one alternative.
func (ft *fitter) fitTerm(c *class, p *pool, term catalog.Requirements) (bitset.Set, catalog.Requirements) {
	want, ok := p.apart(demandOf(p, term), c.blocked)
	if !ok {
		return bitset.New(len(ft.market.offers)), nil
	}
	one := ft.market.matching(p, term).Clone()
	ft.dropUnfit(c, one)
	for _, r := range c.without {
		if !sameDemand(r.demand, want) {
			continue
		}
		for w, unfit := range r.offers {
			one[w] &^= unfit
		}
	}
	return one, want
}

// fitAny is what all alternatives of the class fit, and whether they demand different values of the open keys, so that fitPool leaves some of
// it out.
func (ft *fitter) fitAny(c *class, p *pool) (all bitset.Set, differ bool) {
	all = bitset.New(len(ft.market.offers))
	var demand catalog.Requirements
	for _, term := range c.terms {
		one, want := ft.fitTerm(c, p, term)
		if one.Empty() {
			continue
		}
		differ = differ || !all.Empty() && !sameDemand(demand, want)
		all.Union(one)
		demand = want
	}
	return all, differ
}

// dropUnfit removes offers that are too small, whose daemon pods hold a port, or that a filter or a neighbour rules out.
func (ft *fitter) dropUnfit(c *class, set bitset.Set) {
	ft.market.sizes.keep(set, c.need)
	holders := ft.portHolders(c)
	if len(holders)+len(c.hostile)+len(c.blocked)+len(c.rejected) == 0 {
		return
	}
	set.Each(func(oi int) {
		if ft.onAny(holders, oi) || ft.daemonApart(c, oi) || ft.isBlocked(c, oi) || ft.rejects(c, oi) {
			set.Remove(oi)
		}
	})
}

// portHolders returns the daemons whose pods take a host port of the class.
func (ft *fitter) portHolders(c *class) []int {
	var out []int
	for i := range ft.daemons {
		if ft.daemons[i].ports.clashes(c.ports) {
			out = append(out, i)
		}
	}
	return out
}

// onAny reports whether a node of the offer has a pod of one of the daemons.
func (ft *fitter) onAny(daemons []int, oi int) bool {
	for _, i := range daemons {
		if ft.daemons[i].fits.Has(oi) {
			return true
		}
	}
	return false
}

// compileHostility reads the anti-affinity of the daemons once for all classes, but for those with more terms than are planned with.
func (ft *fitter) compileHostility() {
	for i := range ft.daemons {
		if d := &ft.daemons[i]; d.broken == nil {
			d.repelling = ft.relations.Repelling(d.pod)
		}
	}
}

func (ft *fitter) hostile(c *class) []hostility {
	if c.broken != nil {
		return nil
	}
	own := ft.relations.Repelling(c.pod)
	var out []hostility
	for i := range ft.daemons {
		d := &ft.daemons[i]
		keys := relations.Repelled(own, d.pod)
		if len(d.repelling) > 0 && relations.DaemonRepels(d.pod, c.pod) {
			keys = append(keys, relations.Repelled(d.repelling, c.pod)...)
		}
		if len(keys) > 0 {
			out = append(out, hostility{i, keys})
		}
	}
	return out
}

func (ft *fitter) daemonApart(c *class, oi int) bool {
	return slices.ContainsFunc(c.hostile, func(h hostility) bool {
		return ft.daemons[h.daemon].fits.Has(oi) && slices.ContainsFunc(h.keys, func(key string) bool { return ft.market.bears(oi, key) })
	})
}

// bears says that a node of the offer has the label, or may have it: without it a node is no domain.
func (mk *market) bears(oi int, key string) bool {
	if isHost(key) {
		return true
	}
	if _, ok := mk.label(oi, key); ok {
		return true
	}
	_, open := mk.pools[mk.offers[oi].pool].open[key]
	return open
}

func (ft *fitter) isBlocked(c *class, oi int) bool {
	return c.blocked.Forbids(func(key string) (string, bool) { return ft.market.label(oi, key) })
}

// demandOf is the part of the requirements that the pool leaves to the pods, narrowed by what the pool allows.
func demandOf(p *pool, reqs catalog.Requirements) catalog.Requirements {
	var out catalog.Requirements
	for k, s := range reqs {
		if open, ok := p.open[k]; ok {
			if out == nil {
				out = catalog.Requirements{}
			}
			out[k] = open.Intersect(s)
		}
	}
	return out
}

// apart narrows demands on the keys that the pool leaves to the pods to values that pods that exist do not forbid. It is false where a key
// has none left.
func (p *pool) apart(demand catalog.Requirements, blocked relations.Blocked) (catalog.Requirements, bool) {
	for key, values := range blocked {
		open, ok := p.open[key]
		if !ok {
			continue
		}
		if asked, demanded := demand[key]; demanded {
			open = asked
		}
		if !slices.ContainsFunc(slices.Collect(maps.Keys(values)), open.Has) {
			continue
		}
		rest := open.Intersect(catalog.Set{Values: values, Complement: true, Absent: true})
		if _, some := rest.Any(); !some && !rest.Absent {
			return nil, false
		}
		demand = demand.Intersect(catalog.Requirements{key: rest})
	}
	return demand, true
}

// apart are the pool's offers that match an alternative of the class for which pods that exist leave a value of each open key.
func (ft *fitter) apart(c *class, p *pool) bitset.Set {
	out := bitset.New(len(ft.market.offers))
	for _, term := range c.terms {
		if _, ok := p.apart(demandOf(p, term), c.blocked); ok {
			out.Union(ft.market.matching(p, term))
		}
	}
	return out
}

func sameDemand(a, b catalog.Requirements) bool {
	return maps.EqualFunc(a, b, func(x, y catalog.Set) bool { return x.String() == y.String() && x.Absent == y.Absent })
}

// demandsClash says that no label value serves both, or that a third pod could be needed to decide: only equal demands on
// a key may share a node.
func demandsClash(a, b catalog.Requirements) bool {
	for k, s := range a {
		if o, ok := b[k]; ok && (s.String() != o.String() || s.Absent != o.Absent) {
			return true
		}
	}
	return false
}

// matchesOffer says that the rejection speaks of this offer.
func (mk *market) matchesOffer(r *Rejection, oi int) bool {
	o := &mk.offers[oi]
	is := func(want, have string) bool { return want == "" || want == have }
	return is(r.NodePool, mk.pools[o.pool].Name) && is(r.InstanceType, mk.types[o.shape].Name) && is(r.Zone, o.Zone) && is(r.CapacityType, o.CapacityType)
}

// rejects says that a filter does not let the class onto the offer at all.
func (ft *fitter) rejects(c *class, oi int) bool {
	return len(c.rejected) > 0 && slices.ContainsFunc(c.rejected, func(r Rejection) bool { return ft.market.matchesOffer(&r, oi) })
}

// plain says that the rejection is of the node itself, not of the other pods on it.
func (r *Rejection) plain() bool { return r.Node == "" && len(r.With) == 0 && r.MaxPerNode <= 0 }

// apply notes the verdicts that are about the class alone.
func (c *class) apply(verdicts []Rejection) {
	for _, r := range verdicts {
		switch {
		case r.Node != "":
			c.barred[r.Node] = r.Reason
		case r.MaxPerNode > 0 && (c.perNode == 0 || r.MaxPerNode < c.perNode):
			c.perNode = r.MaxPerNode
		case r.plain():
			c.rejected = append(c.rejected, r)
		}
	}
}

// byClass returns the rejections by the key of their class.
func byClass(list []Rejection) map[string][]Rejection {
	out := map[string][]Rejection{}
	for _, r := range list {
		out[r.ClassKey] = append(out[r.ClassKey], r)
	}
	return out
}

// admits says whether the room's labels and taints let the class in. A term that names a label whose value is not known yet does not: the node may get one
// that the term rules out.
func (r *room) admits(c *class) bool {
	if _, bad := c.barred[r.node.Name]; bad || c.broken != nil || c.lacks != "" {
		return false
	}
	if !c.tolerates(r.node.Taints) || r.ports.clashes(c.ports) {
		return false
	}
	return slices.ContainsFunc(c.terms, func(t catalog.Requirements) bool {
		_, ok := t.Match(r.labels)
		return ok && (r.open == nil || !slices.ContainsFunc(slices.Collect(maps.Keys(t)), r.undecided))
	})
}

// fitter finds the offers whose nodes can run a pod of a class, the daemon pods there included.
type fitter struct {
	market    *market
	relations *relations.Relations
	// daemons are the pods of DaemonSets, of those of the input with these indices.
	daemons    []class
	daemonSets []int
	// oversized are the DaemonSets whose pods are larger than each node that they match.
	oversized []int
}

// tooLarge reports whether a daemon pod asks for more than each node has that it matches.
func (ft *fitter) tooLarge(d *class) bool {
	runs := d.fits.Empty()
	d.fits.Each(func(i int) { runs = runs || ft.market.offers[i].free.holds(d.need) })
	return !runs
}

// runsOn returns the offers whose nodes a daemon pod runs on, whatever there is room for.
func runsOn(mk *market, d *class) bitset.Set {
	out := bitset.New(len(mk.offers))
	for pi := range mk.pools {
		p := &mk.pools[pi]
		if _, ok := nodematch.Tolerates(d.pod.Spec.Tolerations, p.Taints); !ok || p.broken != nil {
			continue
		}
		for _, term := range d.terms {
			out.Union(mk.matching(p, term))
		}
	}
	return out
}

// takeDaemons takes the daemon pods that run on a node off its free resources. It leaves out those that are larger than each node that they match: they
// never run, and counted they would fill every node.
func (ft *fitter) takeDaemons() {
	if len(ft.daemons) == 0 {
		return
	}
	for i := range ft.daemons {
		ft.daemons[i].fits = runsOn(ft.market, &ft.daemons[i])
		if ft.tooLarge(&ft.daemons[i]) {
			ft.daemons[i].fits, ft.oversized = bitset.New(len(ft.market.offers)), append(ft.oversized, ft.daemonSets[i])
		}
	}
	ft.market.offers = slices.Clone(ft.market.offers) // Others may have them, too.
	// Offers of a type share what they have.
	var from, last vec
	were, are := make([]bool, len(ft.daemons)), make([]bool, len(ft.daemons))
	for i := range ft.market.offers {
		o := &ft.market.offers[i]
		for j := range ft.daemons {
			are[j] = ft.daemons[j].fits.Has(i)
		}
		if last == nil || &o.free[0] != &from[0] || !slices.Equal(are, were) {
			from, last = o.free, o.free.clone()
			for j := range ft.daemons {
				if are[j] {
					last.add(ft.daemons[j].need, -1)
				}
			}
			copy(were, are)
		}
		o.free = last
	}
}
