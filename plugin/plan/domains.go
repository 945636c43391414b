package plan

import (
	"maps"
	"slices"
	"strings"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
	"github.com/slipway-k8s/slipway/plugin/plan/relations"
)

// domainMemo remembers what does not depend on sizes, for units that demand nothing of open labels: many classes ask the same. The limits do not change meanwhile.
type domainMemo struct {
	// places are the combinations of values of label keys, by the keys and how many values stand for an endless choice.
	places map[string]places
	// inside are the offers whose nodes can have values, by the keys and the values.
	inside map[string]bitset.Set
	// joining are the pods that have to join others.
	joining []joining
}

// pinnedFits is what the domain leaves of the unit's offers.
func (pl *placer) pinnedFits(u *unit, keys []string, values map[string]string) bitset.Set {
	fits := u.fits.Clone()
	fits.Intersect(pl.inside(u.demands, keys, values))
	return fits
}

// inside returns the offers whose nodes can have the values, for units with the demands. It must not be changed.
func (pl *placer) inside(demands []catalog.Requirements, keys []string, values map[string]string) bitset.Set {
	joined := strings.Join(keys, "\x00") + "\x00\x00" + domainName(values, keys)
	remember := modest(demands)
	if out, known := pl.memo.inside[joined]; known && remember {
		return out
	}
	out := bitset.New(len(pl.market.offers))
	for oi := range pl.market.offers {
		if pl.market.inDomain(demands, oi, keys, values) {
			out.Add(oi)
		}
	}
	if remember && pl.memo.inside != nil && len(pl.memo.inside) < maxInside {
		pl.memo.inside[joined] = out
	}
	return out
}

// maxInside is how many combinations of values are remembered.
const maxInside = 4096

// moreDomains is for a unit whose pods must be apart by labels of which a NodePool takes any value, when each of its domains has one: twice
// as many values of one such label, or of all of them where each alone does not help, and the first domain that they open; -1 for none.
func (pl *placer) moreDomains(u *unit, keys []string, domains []relations.Domain) ([]relations.Domain, int) {
	var apart [][]string
	for _, key := range keys {
		if pl.relations.ApartBy(u.parts, key) {
			apart = append(apart, []string{key})
		}
	}
	if len(apart) > 1 {
		apart = append(apart, slices.Concat(apart...))
	}
	for _, some := range apart {
		before := maps.Clone(pl.market.moreValues)
		for _, key := range some {
			pl.market.moreValues[key] = 2*pl.market.moreValues[key] + 1
		}
		if more := pl.domainsOf(u, keys); len(more) > len(domains) || len(some) > 1 {
			if best := pl.relations.BestDomain(u.parts, more); best >= 0 {
				return more, best
			}
		}
		pl.market.moreValues = before
	}
	return domains, -1
}

// placesOf returns the places under the keys, for units with the demands.
func (pl *placer) placesOf(demands []catalog.Requirements, keys []string) places {
	parts := slices.Clone(keys)
	for _, k := range keys {
		if n := pl.market.moreValues[k]; n > 0 {
			parts = append(parts, k+"="+itoa(int64(n)))
		}
	}
	joined := strings.Join(parts, "\x00")
	remember := modest(demands)
	if out, known := pl.memo.places[joined]; known && remember {
		return out
	}
	var out places
	index := map[string]int{}
	for oi := range pl.market.offers {
		if !pl.market.available.Has(oi) || !pl.market.withinLimits(oi) {
			continue
		}
		at := placeKey(pl.market.offers[oi].pool, keys, func(k string) (string, bool) { return pl.market.label(oi, k) })
		i, ok := index[at]
		if !ok {
			i = len(out)
			index[at] = i
			p := place{weight: pl.market.pools[pl.market.offers[oi].pool].Weight, set: bitset.New(len(pl.market.offers)), rates: make([][]rate, len(pl.dims))}
			for _, values := range pl.market.tuples(demands, oi, keys) {
				p.values, p.names = append(p.values, values), append(p.names, domainName(values, keys))
			}
			out = append(out, p)
		}
		out[i].set.Add(oi)
		out[i].offers = append(out[i].offers, oi)
	}
	if remember && pl.memo.places != nil && len(pl.memo.places) < maxPlaces {
		pl.memo.places[joined] = out
	}
	return out
}

// maxPlaces is how many combinations of keys are remembered.
const maxPlaces = 64
