package plan

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// keepMinValues cuts the list of types to what a claim may name, keeping as many distinct values as the pool's minValues
// ask for: a type further down that brings a new value displaces the last one that brings none.
func (m *model) keepMinValues(pool *pool, all []int, sp span) ([]int, bool) {
	out := all[:min(len(all), maxAlternatives)]
	for _, r := range pool.Requirements {
		if r.MinValues <= 0 {
			continue
		}
		key := NormalKey(r.Key)
		for _, ti := range all[len(out):] {
			have := m.distinct(key, out, sp)
			if len(have) >= int(r.MinValues) {
				break
			}
			if more := m.distinct(key, append(slices.Clone(out), ti), sp); len(more) > len(have) {
				out = m.displace(pool, out, ti, sp)
			}
		}
	}
	for _, r := range pool.Requirements {
		if len(m.distinct(NormalKey(r.Key), out, sp)) < int(r.MinValues) && !m.in.MinValuesBestEffort {
			return out, false
		}
	}
	return out, true
}

// displace puts the type in the place of the last one without which no minValues is lost.
func (m *model) displace(pool *pool, list []int, ti int, sp span) []int {
	for i := len(list) - 1; i > 0; i-- {
		without := slices.Delete(slices.Clone(list), i, i+1)
		loses := slices.ContainsFunc(pool.Requirements, func(r catalog.Requirement) bool {
			key := NormalKey(r.Key)
			before := len(m.distinct(key, list, sp))
			return r.MinValues > 0 && before <= int(r.MinValues) && len(m.distinct(key, without, sp)) < before
		})
		if !loses {
			return append(without, ti)
		}
	}
	return list
}

// distinct are the values of the key over the types and the span, sorted.
func (m *model) distinct(key string, types []int, sp span) []string {
	switch key {
	case corev1.LabelTopologyZone:
		return sp.zones
	case labelCapacityType:
		return sp.capacity
	}
	var out []string
	for _, ti := range types {
		s := &m.types[ti]
		if v, ok := labelOf(&m.pools[s.pool], s, &m.offers[s.offers[0]], key); ok && !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out
}

// minValuesText says which minValues are not met.
func (m *model) minValuesText(pool *pool, types []int, sp span) string {
	var out []string
	for _, r := range pool.Requirements {
		if have := m.distinct(NormalKey(r.Key), types, sp); len(have) < int(r.MinValues) {
			out = append(out, fmt.Sprintf("%s asks for %d values, %d fit", r.Key, r.MinValues, len(have)))
		}
	}
	return strings.Join(out, "; ")
}
