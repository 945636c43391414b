package plan

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
)

// maxMatches is how many requirements the offers that match are remembered of.
const maxMatches = 4096

// matching returns the pool's offers that match the requirements. It must not be changed.
func (mk *market) matching(p *pool, reqs catalog.Requirements) bitset.Set {
	key := strconv.AppendInt(strconv.AppendInt(nil, int64(p.offers[0]), 10), int64(-p.offers[1]), 10)
	for _, k := range slices.Sorted(maps.Keys(reqs)) {
		key = fmt.Appendf(key, "%q%q%t", k, reqs[k].String(), reqs[k].Absent)
	}
	if out, known := mk.matches[string(key)]; known {
		return out
	}
	out := bitset.New(len(mk.offers))
	mk.match(p, reqs, out)
	if mk.matches == nil {
		mk.matches = map[string]bitset.Set{}
	}
	if len(mk.matches) < maxMatches {
		mk.matches[string(key)] = out
	}
	return out
}

// match adds to out the pool's offers whose labels meet the requirements; open keys are met if any value is left.
func (mk *market) match(p *pool, reqs catalog.Requirements, out bitset.Set) {
	var byType, byOffer []string
	for _, k := range slices.Sorted(maps.Keys(reqs)) {
		set, ok := p.open[k]
		switch {
		case ok:
			if set.Intersect(reqs[k]).Empty() {
				return
			}
		case k == corev1.LabelTopologyZone || k == labelCapacityType || k == catalog.LabelZoneID || k == corev1.LabelTopologyRegion || ofReservation(k):
			byOffer = append(byOffer, k)
		default:
			byType = append(byType, k)
		}
	}
	for ti := p.types[0]; ti < p.types[1]; ti++ {
		s := &mk.types[ti]
		if !meets(reqs, byType, p, s, &mk.offers[s.offers[0]]) {
			continue
		}
		for oi := s.offers[0]; oi < s.offers[1]; oi++ {
			if meets(reqs, byOffer, p, s, &mk.offers[oi]) {
				out.Add(oi)
			}
		}
	}
}

func meets(reqs catalog.Requirements, keys []string, p *pool, s *shape, o *offer) bool {
	for _, k := range keys {
		set := reqs[k]
		v, ok := labelOf(p, s, o, k)
		if !ok && !set.Absent || ok && !set.Has(v) {
			return false
		}
	}
	return true
}
