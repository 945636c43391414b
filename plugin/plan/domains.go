package plan

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// domainMemo remembers what does not depend on sizes while units are made: many classes ask the same. The limits do not change meanwhile.
type domainMemo struct {
	// places are the combinations of values of label keys, by the keys.
	places map[string]places
	// inside are the offers whose nodes can have values, by the keys and the values.
	inside map[string]bits
	// joining are the pods that have to join others.
	joining []joining
}

// pinnedFits is what the domain leaves of the unit's offers.
func (m *model) pinnedFits(u *unit, keys []string, values map[string]string) bits {
	fits := u.fits.clone()
	if u.modest() {
		fits.and(m.inside(keys, values))
		return fits
	}
	for oi := range m.market.offers {
		if fits.has(oi) && !m.market.inDomain(u.demands, oi, keys, values) {
			fits[oi>>6] &^= 1 << (oi & 63)
		}
	}
	return fits
}

// inside returns the offers whose nodes can have the values, for units that demand nothing of open labels. Nobody may change it.
func (m *model) inside(keys []string, values map[string]string) bits {
	joined := strings.Join(keys, "\x00") + "\x00\x00" + domainName(values, keys)
	out, known := m.memo.inside[joined]
	if known {
		return out
	}
	out = newBits(len(m.market.offers))
	anything := make([]catalog.Requirements, len(m.market.pools))
	for oi := range m.market.offers {
		if m.market.inDomain(anything, oi, keys, values) {
			out.set(oi)
		}
	}
	if m.memo.inside != nil && len(m.memo.inside) < maxInside {
		m.memo.inside[joined] = out
	}
	return out
}

// maxInside is how many combinations of values are remembered.
const maxInside = 4096

// onlyZone says that the zone is the only key, and the offer alone decides it.
func onlyZone(keys []string) bool { return len(keys) == 1 && keys[0] == corev1.LabelTopologyZone }

// moreDomains is for a unit whose pods must be apart by labels of which a NodePool takes any value, when each of its domains has one: twice
// as many values of one such label, or of all of them where each alone does not help, and the first domain that they open; -1 for none.
func (m *model) moreDomains(u *unit, keys []string, domains []domain) ([]domain, int) {
	var apart [][]string
	for _, key := range keys {
		if m.relations.apartBy(u, key) {
			apart = append(apart, []string{key})
		}
	}
	if len(apart) > 1 {
		apart = append(apart, slices.Concat(apart...))
	}
	for _, some := range apart {
		before := maps.Clone(m.market.moreValues)
		for _, key := range some {
			m.market.moreValues[key] = 2*m.market.moreValues[key] + 1
		}
		if more := m.findDomains(u, keys); len(more) > len(domains) || len(some) > 1 {
			if best := m.relations.bestDomain(u, more); best >= 0 {
				clear(m.memo.places)
				clear(m.memo.inside)
				return more, best
			}
		}
		m.market.moreValues = before
	}
	return domains, -1
}

// apartBy says that anti-affinity keeps the unit's pods from others by the key, and that no spread counts its values.
func (re *relations) apartBy(u *unit, key string) bool {
	apart := false
	for i := range re.rules {
		r := &re.rules[i]
		if r.key != key {
			continue
		}
		if r.kind == spread {
			return false
		}
		apart = apart || r.kind == antiAffinity && slices.ContainsFunc(u.parts, func(p part) bool { return r.owner == p.class || r.classes.has(p.class) })
	}
	return apart && !isHost(key)
}

// placesOf returns the places under the keys.
func (m *model) placesOf(keys []string) places {
	joined := strings.Join(keys, "\x00")
	out, known := m.memo.places[joined]
	if known {
		return out
	}
	anything := make([]catalog.Requirements, len(m.market.pools))
	index := map[string]int{}
	for oi := range m.market.offers {
		if !m.market.available.has(oi) || !m.market.withinLimits(oi) {
			continue
		}
		at := placeKey(m.market.offers[oi].pool, keys, func(k string) (string, bool) { return m.market.label(oi, k) })
		i, ok := index[at]
		if !ok {
			i = len(out)
			index[at] = i
			p := place{weight: m.market.pools[m.market.offers[oi].pool].Weight, set: newBits(len(m.market.offers)), rates: make([][]rate, len(m.dims))}
			for _, values := range m.market.tuples(anything, oi, keys) {
				p.values, p.names = append(p.values, values), append(p.names, domainName(values, keys))
			}
			out = append(out, p)
		}
		out[i].set.set(oi)
		out[i].offers = append(out[i].offers, oi)
	}
	if m.memo.places != nil && len(m.memo.places) < maxPlaces {
		m.memo.places[joined] = out
	}
	return out
}

// maxPlaces is how many combinations of keys are remembered.
const maxPlaces = 64
