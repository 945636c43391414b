package plan

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan/relations"
)

// newUnit joins the needs of the parts.
func (pl *placer) newUnit(parts []relations.Part, count int) unit {
	u := unit{parts: parts, count: count, need: make(vec, len(pl.dims)), demands: make([]catalog.Requirements, len(pl.market.pools))}
	for i, p := range parts {
		c := &pl.classes[p.Class]
		u.need.add(c.need, int64(p.N))
		if i == 0 {
			u.fits = c.fits.Clone()
			copy(u.demands, c.demands)
			continue
		}
		u.fits.Intersect(c.fits)
		for pi := range pl.market.pools {
			if demandsClash(u.demands[pi], c.demands[pi]) {
				pl.market.dropPool(u.fits, pi)
			}
			if len(c.demands[pi]) > 0 {
				u.demands[pi] = u.demands[pi].Intersect(c.demands[pi])
			}
		}
	}
	if len(parts) > 1 || parts[0].N > 1 {
		for oi := range pl.market.offers {
			if u.fits.Has(oi) && pl.market.offers[oi].free.times(u.need) < 1 {
				u.fits.Remove(oi)
			}
		}
	}
	all := u.fits
	if fits, spared := pl.market.probation.spared(all); spared {
		u.fits, u.last = fits, all
	}
	return u
}

// assign gives each of the unit's pods a domain that the rules permit, the cheapest, and among equals the emptiest. It
// returns one unit per domain and takes them off u.
func (pl *placer) assign(u *unit) []unit {
	keys := pl.relations.KeysOf(u.parts)
	if len(keys) == 0 {
		out := *u
		u.count = 0
		pl.relations.RecordParts(out.parts, out.count, nil)
		return []unit{out}
	}
	domains := pl.domainsOf(u, keys)
	pl.helpful(u, domains)
	counts := map[string]int{}
	for u.count > 0 {
		best := pl.relations.BestDomain(u.parts, domains)
		if best < 0 {
			if domains, best = pl.moreDomains(u, keys, domains); best < 0 {
				break
			}
		}
		counts[domains[best].Name]++
		pl.relations.RecordParts(u.parts, 1, domains[best].Values)
		u.count--
	}
	var out []unit
	for i := range domains {
		if n := counts[domains[i].Name]; n > 0 {
			out = append(out, pl.pin(u, keys, domains[i].Values, n))
		}
	}
	return out
}

// domainsOf lists the domains in which the unit could be launched now, the cheapest first.
func (pl *placer) domainsOf(u *unit, keys []string) []relations.Domain {
	// A label that no new node has makes no domain.
	keys = slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return !pl.market.newLabels[k] })
	if len(keys) == 0 {
		if pl.market.each(u.fits, pl.market.probation.buyable).Empty() {
			return nil
		}
		return []relations.Domain{{Values: map[string]string{}}}
	}
	return pl.placesOf(u.demands, keys).domains(pl.market.offers, u.fits, u.need)
}

// pin is n units narrowed to a domain: one value of each key, or none where it has none.
func (pl *placer) pin(u *unit, keys []string, values map[string]string, n int) unit {
	out := *u
	out.count, out.fits, out.demands = n, pl.pinnedFits(u, keys, values), slices.Clone(u.demands)
	_, zone := values[corev1.LabelTopologyZone]
	_, zoneID := values[catalog.LabelZoneID]
	out.pinned, out.domain = zone || zoneID, values
	for pi := range pl.market.pools {
		for _, k := range keys {
			if _, open := pl.market.pools[pi].open[k]; !open {
				continue
			}
			one := catalog.Requirements{k: catalog.Set{Absent: true}}
			if v, ok := values[k]; ok {
				one = catalog.FromLabels(map[string]string{k: v})
			}
			out.demands[pi] = out.demands[pi].Intersect(one)
		}
	}
	return out
}

// placer gives the pods the domains that their relations ask for.
type placer struct {
	market    *market
	relations *relations.Relations
	classes   []class
	dims      dims
	memo      domainMemo
}
