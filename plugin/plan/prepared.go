package plan

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// prepare is compileOffers, from what was compiled last if that will do.
func (m *model) prepare() {
	if m.in.maker == nil {
		m.compileOffers()
		return
	}
	key, lists := m.preparedKey()
	maker := m.in.maker
	i := slices.IndexFunc(maker.known, func(p *prepared) bool { return p.key == key })
	if i >= 0 && slices.EqualFunc(maker.known[i].lists, lists, sameList) {
		p := maker.known[i]
		m.market.types, m.market.offers, m.market.available = p.types, p.offers, p.available.clone()
		for i, r := range p.ranges {
			m.market.pools[i].types, m.market.pools[i].offers = r[0], r[1]
		}
		if i > 0 {
			maker.remember(p)
		}
		return
	}
	m.compileOffers()
	p := &prepared{key: key, lists: lists, types: m.market.types, offers: m.market.offers, available: m.market.available.clone()}
	for i := range m.market.pools {
		p.ranges = append(p.ranges, [2][2]int{m.market.pools[i].types, m.market.pools[i].offers})
	}
	maker.remember(p)
}

// preparedKey is what compiled offers depend on, lists of instance types apart.
func (m *model) preparedKey() (string, [][]catalog.InstanceType) {
	var b strings.Builder
	put := func(words ...string) {
		for _, w := range words {
			b.WriteString(strconv.Quote(w))
		}
		b.WriteByte('\n')
	}
	for _, d := range m.dims {
		put(string(d))
	}
	var lists [][]catalog.InstanceType
	for i := range m.market.pools {
		p := &m.market.pools[i]
		lists = append(lists, m.in.Catalog.InstanceTypes[p.NodeClass])
		put("pool", p.Name, p.NodeClass, strconv.FormatBool(p.broken != nil))
		for _, k := range slices.Sorted(maps.Keys(p.reqs)) {
			put(k, p.reqs[k].String(), strconv.FormatBool(p.reqs[k].Absent))
		}
		for _, k := range slices.Sorted(maps.Keys(p.labels)) {
			put(k, p.labels[k])
		}
		for _, l := range p.limits {
			put("limit", string(l.name))
		}
	}
	return b.String(), lists
}
