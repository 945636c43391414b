package plan

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/slipway-k8s/slipway/launcher/catalog"
)

// Maker makes plans like Make, and remembers the offers that it compiled last: where the next input has the same lists of
// instance types (the same slices, which nobody may change any more), the same NodePools but for their usage, and asks for
// the same resources, they are used again. For a few pods that is most of the work. It remembers a few of them, since the pods of
// a cluster ask now for these resources, now for those. The zero value is ready. It is for one caller at a time; a copy knows
// what the original knew, and is for another.
type Maker struct {
	// known were used last, the latest first. It is made anew at each change: copies share it.
	known []*prepared
}

// maxKnown bounds what a Maker remembers.
const maxKnown = 4

// Make plans the pods of the input.
func (k *Maker) Make(ctx context.Context, in Input) Plan {
	in.maker = k
	return Make(ctx, in)
}

// prepared are compiled offers. Nobody changes them.
type prepared struct {
	key       string
	lists     [][]catalog.InstanceType
	types     []shape
	offers    []offer
	available bits
	// ranges are the pools' of types and offers.
	ranges [][2][2]int
}

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
		m.types, m.offers, m.available = p.types, p.offers, p.available.clone()
		for i, r := range p.ranges {
			m.pools[i].types, m.pools[i].offers = r[0], r[1]
		}
		if i > 0 {
			maker.remember(p)
		}
		return
	}
	m.compileOffers()
	p := &prepared{key: key, lists: lists, types: m.types, offers: m.offers, available: m.available.clone()}
	for i := range m.pools {
		p.ranges = append(p.ranges, [2][2]int{m.pools[i].types, m.pools[i].offers})
	}
	maker.remember(p)
}

// remember puts p before the others, in place of what was known by its key: older lists of instance types are given up.
func (k *Maker) remember(p *prepared) {
	known := make([]*prepared, 1, maxKnown)
	known[0] = p
	for _, other := range k.known {
		if other.key != p.key && len(known) < maxKnown {
			known = append(known, other)
		}
	}
	k.known = known
}

// sameList says that the two are one: not only equal.
func sameList(a, b []catalog.InstanceType) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
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
	for i := range m.pools {
		p := &m.pools[i]
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
