package plan

import (
	"math"
	"slices"
	"sort"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
)

// maxPairs bounds how many ways to pair followers with companions are compared.
const maxPairs = 64

// bundles joins pods that require others on their own node (affinity by hostname) with those others, and takes them off
// left. Pods for whom that cannot be done are set to none left, so that nobody plans them.
func (co *colocation) bundles(left []int) []unit {
	if !slices.ContainsFunc(co.relations.rules, func(r rule) bool { return r.kind == affinity && isHost(r.key) }) {
		return nil
	}
	var out []unit
	done := make([]bool, len(co.classes))
	co.lost, co.waiting = co.hopeless(left), bitset.New(len(co.classes))
	for i := range co.relations.rules {
		if r := &co.relations.rules[i]; r.kind == affinity {
			co.waiting.Add(r.owner)
		}
	}
	for ci := range co.classes {
		if left[ci] == 0 || done[ci] || !co.relations.follows(ci) {
			continue
		}
		group, ok := co.group(ci, left)
		var units []unit
		if ok && !co.lost.Has(ci) {
			units = co.bundle(ci, group, left)
		}
		if units == nil {
			left[ci] = 0 // The others may do without it.
			continue
		}
		for _, g := range group {
			done[g] = done[g] || co.relations.follows(g)
		}
		out = append(out, units...)
	}
	return out
}

// follows says that pods of the class require other pods on their node.
func (re *relations) follows(ci int) bool {
	for _, i := range re.concerns[ci].owned {
		if r := &re.rules[i]; r.kind == affinity && r.key == corev1.LabelHostname {
			return true
		}
	}
	return false
}

// group collects the class and one companion for each of its rules, and theirs; false if there is none, or if they are more than any node
// has room for.
func (co *colocation) group(ci int, left []int) ([]int, bool) {
	group, in := []int{ci}, bitset.New(len(co.classes))
	in.Add(ci)
	for next := 0; next < len(group); next++ {
		for _, i := range co.relations.concerns[group[next]].owned {
			r := &co.relations.rules[i]
			if r.kind != affinity || r.key != corev1.LabelHostname {
				continue
			}
			other, ok := co.companion(r, in, left)
			if !ok || len(group) >= co.podsPerNode {
				return group, false
			}
			if other >= 0 {
				group = append(group, other)
				in.Add(other)
			}
		}
	}
	return co.closed(group, in, left), true
}

// closed adds to a group in which everybody follows somebody all those that can follow nobody else: the first pod to
// come decides for a node, and then no other node will do.
func (co *colocation) closed(group []int, in bitset.Set, left []int) []int {
	if slices.ContainsFunc(group, func(g int) bool { return !co.relations.follows(g) }) {
		return group
	}
	for i := 0; i < len(co.relations.rules) && len(group) <= co.podsPerNode; i++ {
		r := &co.relations.rules[i]
		if r.kind != affinity || !isHost(r.key) || left[r.owner] == 0 || in.Has(r.owner) || !r.classes.Meets(in) {
			continue
		}
		near, others := false, false
		r.classes.Each(func(ci int) {
			if left[ci] > 0 {
				near = near || in.Has(ci)
				others = others || !co.relations.follows(ci)
			}
		})
		if near && !others {
			group = append(group, r.owner)
			in.Add(r.owner)
			i = -1 // Others may follow this one.
		}
	}
	return group
}

// companion is the class to join for the sake of the rule; -1 where the group has one already. A class that only its own
// pods would keep company founds a group of its own if no others are planned that match: else it has to join those.
func (co *colocation) companion(r *rule, group bitset.Set, left []int) (int, bool) {
	found, had := -1, false
	r.classes.Each(func(ci int) {
		switch {
		case ci == r.owner:
		case group.Has(ci):
			had = true
		case left[ci] == 0 || co.lost.Has(ci):
		// Best one that waits for nobody itself.
		case found < 0 || co.waiting.Has(found) && !co.waiting.Has(ci):
			found = ci
		}
	})
	if had {
		return -1, true
	}
	if found >= 0 {
		return found, true
	}
	return -1, r.classes.Has(r.owner) && r.total == 0
}

// hopeless are the classes that will find no node: they fit none, or require others that do not exist, are not planned or
// are hopeless themselves.
func (co *colocation) hopeless(left []int) bitset.Set {
	out := bitset.New(len(co.classes))
	for ci := range co.classes {
		if co.classes[ci].fits.Empty() {
			out.Add(ci)
		}
	}
	for again := true; again; {
		again = false
		for i := range co.relations.rules {
			if r := &co.relations.rules[i]; !out.Has(r.owner) && co.unmeetable(r, left, out) {
				out.Add(r.owner)
				again = true
			}
		}
	}
	return out
}

// unmeetable says that the rule requires a label that no node has, or pods that exist nowhere and are not planned either,
// but for the lost.
func (co *colocation) unmeetable(r *rule, left []int, lost bitset.Set) bool {
	switch {
	case r.kind != affinity:
		return false
	case !co.canHave(r.key):
		return true
	case r.total > 0 || r.classes.Has(r.owner):
		return false
	}
	some := false
	r.classes.Each(func(ci int) { some = some || left[ci] > 0 && !lost.Has(ci) })
	return !some
}

// bundle makes units of the group, none if no node takes one of each. The followers share as few nodes as they can; companions that follow
// nobody are one per node.
func (co *colocation) bundle(ci int, group, left []int) []unit {
	if len(group) == 2 && !co.relations.follows(group[1]) {
		return co.pairs(ci, group[1], left)
	}
	parts := func(k int) []part {
		var out []part
		for _, g := range group {
			n := 1
			if co.relations.follows(g) {
				n = min(k, left[g])
			}
			out = append(out, part{g, n})
		}
		return out
	}
	most := 0
	for _, g := range group {
		most = max(most, left[g])
	}
	k := co.largest(most, parts)
	if k == 0 {
		return nil
	}
	u := co.placer.newUnit(parts(k), 1)
	for _, p := range u.parts {
		left[p.class] -= p.n
	}
	// The others would have to join the same node, and it is full.
	for _, g := range group {
		if co.relations.follows(g) {
			left[g] = 0
		}
	}
	return []unit{u}
}

// pairs puts the pods of the follower beside pods of the companion: beside as many of them as is cheapest, if each such
// pair, and each companion that is left alone, had a node of its own.
func (co *colocation) pairs(follower, companion int, left []int) []unit {
	beside := func(k int) []part { return []part{{companion, 1}, {follower, k}} }
	most := co.largest(left[follower], beside)
	if most == 0 {
		return nil
	}
	n := min(left[follower], left[companion]*most)
	alone := co.placer.cheapestAlone([]part{{companion, 1}})
	best, bestCost := (n+most-1)/most, math.Inf(1)
	for nodes := best; nodes <= min(left[companion], n, best+maxPairs); nodes++ {
		k, longer := n/nodes, n%nodes
		cost := float64(nodes-longer)*co.placer.cheapestAlone(beside(k)) + float64(left[companion]-nodes)*alone
		if longer > 0 {
			cost += float64(longer) * co.placer.cheapestAlone(beside(k+1))
		}
		if cost < bestCost-1e-9 {
			best, bestCost = nodes, cost
		}
	}
	left[follower] = 0
	left[companion] -= best
	var out []unit
	k, longer := n/best, n%best
	if longer > 0 {
		out = append(out, co.placer.newUnit(beside(k+1), longer))
	}
	return append(out, co.placer.newUnit(beside(k), best-longer))
}

// cheapestAlone is the price of the cheapest node that holds the parts; infinite if there is none.
func (pl *placer) cheapestAlone(parts []part) float64 {
	u, best := pl.newUnit(parts, 1), math.Inf(1)
	for oi := range pl.market.offers {
		if u.fits.Has(oi) && pl.market.available.Has(oi) {
			best = min(best, pl.market.offers[oi].Price)
		}
	}
	return best
}

// largest is the most pods, up to limit, for which the parts can share some node.
func (co *colocation) largest(limit int, parts func(int) []part) int {
	return sort.Search(limit, func(k int) bool {
		p := parts(k + 1)
		if !co.company(p) {
			return true
		}
		u := co.placer.newUnit(p, 1)
		u.fits.Intersect(co.market.available)
		if keys := co.relations.keys(&u); len(keys) > 0 && co.relations.bestDomain(&u, co.placer.domainsOf(&u, keys)) < 0 {
			return true
		}
		return u.fits.Empty()
	})
}

// colocation says which pods share a node and which may not: by required affinity, anti-affinity, spread and ports over hosts.
type colocation struct {
	// lost are the classes that will find no node, waiting those that require others; known once bundles are made.
	lost, waiting bitset.Set
	in            *Input
	market        *market
	relations     *relations
	placer        *placer
	classes       []class
	rooms         []room
	nodeRules     []nodeRule
	// podsPerNode is how many pods the roomiest node has room for.
	podsPerNode int
}
