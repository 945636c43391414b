package plan

import (
	"math"
	"sort"

	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
	"github.com/slipway-k8s/slipway/plugin/plan/relations"
)

// maxPairs bounds how many ways to pair followers with leaders are compared.
const maxPairs = 64

// bundles joins pods that require others on their own node (affinity by hostname) with those others, and takes them off
// left. Classes for which that cannot be done are set to none left, so that they are not planned.
func (co *colocation) bundles(left []int) []unit {
	unfit := bitset.New(len(co.classes))
	for ci := range co.classes {
		if co.classes[ci].fits.Empty() {
			unfit.Add(ci)
		}
	}
	groups := co.relations.Groups(left, unfit, co.canHave, co.podsPerNode)
	if groups == nil {
		return nil
	}
	var out []unit
	done := make([]bool, len(co.classes))
	for ci := range co.classes {
		if left[ci] == 0 || done[ci] || !co.relations.Follows(ci) {
			continue
		}
		group, ok := groups.Of(ci, left)
		var units []unit
		if ok && !groups.Lost(ci) {
			units = co.bundle(ci, group, left)
		}
		if units == nil {
			left[ci] = 0 // The others may do without it.
			continue
		}
		for _, g := range group {
			done[g] = done[g] || co.relations.Follows(g)
		}
		out = append(out, units...)
	}
	return out
}

// bundle makes units of the group, none if no node takes one of each. The followers share as few nodes as they can; leaders that follow
// none are one per node.
func (co *colocation) bundle(ci int, group, left []int) []unit {
	if len(group) == 2 && !co.relations.Follows(group[1]) {
		return co.pairs(ci, group[1], left)
	}
	parts := func(k int) []relations.Part {
		var out []relations.Part
		for _, g := range group {
			n := 1
			if co.relations.Follows(g) {
				n = min(k, left[g])
			}
			out = append(out, relations.Part{Class: g, N: n})
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
		left[p.Class] -= p.N
	}
	// The others would have to join the same node, and it is full.
	for _, g := range group {
		if co.relations.Follows(g) {
			left[g] = 0
		}
	}
	return []unit{u}
}

// pairs puts the pods of the follower beside pods of the leader: beside as many of them as is cheapest, if each such
// pair, and each leader that is left alone, had a node of its own.
func (co *colocation) pairs(follower, leader int, left []int) []unit {
	beside := func(k int) []relations.Part {
		return []relations.Part{{Class: leader, N: 1}, {Class: follower, N: k}}
	}
	most := co.largest(left[follower], beside)
	if most == 0 {
		return nil
	}
	n := min(left[follower], left[leader]*most)
	alone := co.placer.cheapestAlone([]relations.Part{{Class: leader, N: 1}})
	best, bestCost := (n+most-1)/most, math.Inf(1)
	for nodes := best; nodes <= min(left[leader], n, best+maxPairs); nodes++ {
		k, longer := n/nodes, n%nodes
		cost := float64(nodes-longer)*co.placer.cheapestAlone(beside(k)) + float64(left[leader]-nodes)*alone
		if longer > 0 {
			cost += float64(longer) * co.placer.cheapestAlone(beside(k+1))
		}
		if cost < bestCost-1e-9 {
			best, bestCost = nodes, cost
		}
	}
	left[follower] = 0
	left[leader] -= best
	var out []unit
	k, longer := n/best, n%best
	if longer > 0 {
		out = append(out, co.placer.newUnit(beside(k+1), longer))
	}
	return append(out, co.placer.newUnit(beside(k), best-longer))
}

// cheapestAlone is the price of the cheapest node that holds the parts and can be launched now; infinite if there is none.
func (pl *placer) cheapestAlone(parts []relations.Part) float64 {
	u, best := pl.newUnit(parts, 1), math.Inf(1)
	pl.market.each(u.fits, pl.market.probation.buyable).Each(func(oi int) { best = min(best, pl.market.offers[oi].Price) })
	return best
}

// largest is the most pods, up to limit, for which the parts can share some node that can be launched now.
func (co *colocation) largest(limit int, parts func(int) []relations.Part) int {
	return sort.Search(limit, func(k int) bool {
		p := parts(k + 1)
		if !co.nodeRules.Permit(p, anyLabel) {
			return true
		}
		u := co.placer.newUnit(p, 1)
		u.fits = co.market.each(u.fits, co.market.probation.buyable)
		if keys := co.relations.KeysOf(u.parts); len(keys) > 0 && co.relations.BestDomain(u.parts, co.placer.domainsOf(&u, keys)) < 0 {
			return true
		}
		return u.fits.Empty()
	})
}

// colocation says which pods share a node and which may not: by required affinity, anti-affinity, spread and ports over hosts.
type colocation struct {
	in        *Input
	market    *market
	relations *relations.Relations
	placer    *placer
	classes   []class
	rooms     []room
	nodeRules relations.NodeRules
	// podsPerNode is how many pods the roomiest node has room for.
	podsPerNode int
}
