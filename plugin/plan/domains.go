package plan

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// domainMemo remembers domains and the offers in them while units are made: classes of equal needs ask the same. The
// limits do not change meanwhile.
type domainMemo struct {
	domains map[string][]domain
	fits    map[string]bits
	// reach are the values of a label that pods can be launched into, by their offers.
	reach map[string]map[string]bool
}

// domainKey tells units apart whose domains may differ; false for those whose demands make them special.
func domainKey(u *unit, keys []string) (string, bool) {
	for _, d := range u.demands {
		if len(d) > 0 {
			return "", false
		}
	}
	b := make([]byte, 0, 8*(len(u.need)+len(u.fits))+64)
	for _, n := range u.need {
		b = binary.AppendVarint(b, n)
	}
	for _, w := range u.fits {
		b = binary.LittleEndian.AppendUint64(b, w)
	}
	return string(append(b, strings.Join(keys, "\x00")...)), true
}

// pinnedFits is what the domain leaves of the unit's offers.
func (m *model) pinnedFits(u *unit, keys []string, values map[string]string) bits {
	key, ok := domainKey(u, keys)
	if ok {
		key += "\x00" + domainName(values, keys)
		if fits, known := m.memo.fits[key]; known {
			return fits
		}
	}
	fits := u.fits.clone()
	for oi := range m.offers {
		if fits.has(oi) && !m.inDomain(u, oi, keys, values) {
			fits[oi>>6] &^= 1 << (oi & 63)
		}
	}
	if ok && m.memo.fits != nil {
		m.memo.fits[key] = fits
	}
	return fits
}

// inDomain says that a node of the offer can have the values, and none of the keys that have no value.
func (m *model) inDomain(u *unit, oi int, keys []string, values map[string]string) bool {
	for _, k := range keys {
		v, has := values[k]
		if own, fixed := m.label(oi, k); fixed {
			if !has || own != v {
				return false
			}
			continue
		}
		if has && !slices.Contains(m.values(u.demands, oi, k), v) || !has && !m.mayLack(u.demands, oi, k) {
			return false
		}
	}
	return true
}

// onlyZone says that the zone is the only key, and the offer alone decides it.
func onlyZone(keys []string) bool { return len(keys) == 1 && keys[0] == corev1.LabelTopologyZone }

// region is regionOf, remembered.
func (m *model) region(zone string) string {
	r, ok := m.regions[zone]
	if !ok {
		if m.regions == nil {
			m.regions = map[string]string{}
		}
		r = regionOf(zone)
		m.regions[zone] = r
	}
	return r
}

// moreDomains is for a unit whose pods must be apart by labels of which a NodePool takes any value, when each of its domains has one: twice
// as many values of one such label, or of all of them where each alone does not help, and the first domain that they open; -1 for none.
func (m *model) moreDomains(u *unit, keys []string, domains []domain) ([]domain, int) {
	var apart [][]string
	for _, key := range keys {
		if m.apartBy(u, key) {
			apart = append(apart, []string{key})
		}
	}
	if len(apart) > 1 {
		apart = append(apart, slices.Concat(apart...))
	}
	for _, some := range apart {
		before := maps.Clone(m.moreValues)
		for _, key := range some {
			m.moreValues[key] = 2*m.moreValues[key] + 1
		}
		if more := m.findDomains(u, keys); len(more) > len(domains) || len(some) > 1 {
			if best := m.bestDomain(u, more); best >= 0 {
				clear(m.memo.domains)
				return more, best
			}
		}
		m.moreValues = before
	}
	return domains, -1
}

// apartBy says that anti-affinity keeps the unit's pods from others by the key, and that no spread counts its values.
func (m *model) apartBy(u *unit, key string) bool {
	apart := false
	for i := range m.rules {
		r := &m.rules[i]
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
