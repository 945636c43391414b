package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
)

// zonal says that the label is one by which a unit is pinned to a zone.
func zonal(key string) bool { return key == corev1.LabelTopologyZone || key == catalog.LabelZoneID }

// unpinned is shared without the zones that the node's units were given.
func (pl *placer) unpinned(p *problem, n node) bitset.Set {
	loose := *p
	loose.units = slices.Clone(p.units)
	for _, it := range n.items {
		u := &loose.units[it.unit]
		if !u.pinned {
			continue
		}
		free := pl.newUnit(u.parts, u.count)
		var keys []string
		for _, k := range pl.relations.KeysOf(u.parts) {
			if !zonal(k) {
				keys = append(keys, k)
			}
		}
		u.fits = pl.pinnedFits(&free, keys, u.domain)
	}
	return pl.market.shared(&loose, n)
}

// loose says that the claim's zone is open though rules over zones concern its pods: they were alone with them.
func (m *model) loose(c *Claim) bool {
	if len(valuesIn(c.Requirements, corev1.LabelTopologyZone)) < 2 {
		return false
	}
	return slices.ContainsFunc(c.Members, func(x Member) bool { return slices.ContainsFunc(m.relations.Keys(x.Class), zonal) })
}

// untied is left without the classes that rules over zones tie to pods of claims whose zone is open: where those will be is not known
// before they are launched. Nil if nothing remains.
func (s *second) untied(left []int) []int {
	if left == nil || !slices.ContainsFunc(s.first.Claims, s.mayBeLoose) {
		return left
	}
	m := compile(s.in, s.wants, newLessons())
	for i := range s.first.Claims {
		if c := &s.first.Claims[i]; m.loose(c) {
			m.tied(c).Each(func(ci int) { left[ci] = 0 })
		}
	}
	if !slices.ContainsFunc(left, func(n int) bool { return n > 0 }) {
		return nil
	}
	return left
}

// mayBeLoose says that the claim has several zones, and a pool whose minValues may be why.
func (s *second) mayBeLoose(c Claim) bool {
	return len(valuesIn(c.Requirements, corev1.LabelTopologyZone)) > 1 &&
		slices.ContainsFunc(s.in.Catalog.NodePools[c.NodePool].Requirements, func(r catalog.Requirement) bool { return r.MinValues > 1 })
}

// tied are the classes of the rules over zones that concern the claim's pods.
func (m *model) tied(c *Claim) bitset.Set {
	var classes []int
	for _, x := range c.Members {
		classes = append(classes, x.Class)
	}
	return m.relations.Tied(classes, zonal)
}
