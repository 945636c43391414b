package plan

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// prepare is compileOffers, from what was compiled last if that will do.
func (mb *marketBuilder) prepare() {
	if mb.in.maker == nil {
		mb.compileOffers()
		return
	}
	key, lists := mb.preparedKey()
	maker := mb.in.maker
	i := slices.IndexFunc(maker.known, func(p *prepared) bool { return p.key == key })
	if i >= 0 && slices.EqualFunc(maker.known[i].lists, lists, sameList) && sameCommitments(maker.known[i].commitments, mb.in.Catalog.Commitments) {
		p := maker.known[i]
		mb.market.types, mb.market.offers, mb.market.available = p.types, p.offers, p.available.Clone()
		for i, r := range p.ranges {
			mb.market.pools[i].types, mb.market.pools[i].offers = r[0], r[1]
		}
		if i > 0 {
			maker.remember(p)
		}
		return
	}
	mb.compileOffers()
	p := &prepared{key: key, lists: lists, commitments: mb.in.Catalog.Commitments, types: mb.market.types, offers: mb.market.offers, available: mb.market.available.Clone()}
	for i := range mb.market.pools {
		p.ranges = append(p.ranges, [2][2]int{mb.market.pools[i].types, mb.market.pools[i].offers})
	}
	maker.remember(p)
}

// preparedKey is what compiled offers depend on, lists of instance types apart.
func (mb *marketBuilder) preparedKey() (string, [][]catalog.InstanceType) {
	var b strings.Builder
	put := func(words ...string) {
		for _, w := range words {
			b.WriteString(strconv.Quote(w))
		}
		b.WriteByte('\n')
	}
	for _, d := range mb.dims {
		put(string(d))
	}
	var lists [][]catalog.InstanceType
	for i := range mb.market.pools {
		p := &mb.market.pools[i]
		lists = append(lists, mb.in.Catalog.InstanceTypes[p.TypesKey()])
		put("pool", p.Name, p.NodeClass, p.Overlaid, strconv.FormatBool(p.broken != nil))
		put(strconv.FormatFloat(p.NodeCost, 'g', -1, 64), strconv.FormatFloat(p.IdleCPU, 'g', -1, 64))
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
