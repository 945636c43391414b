package plan

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/slipway-k8s/slipway/plugin/plan/binpack"
	"github.com/slipway-k8s/slipway/plugin/plan/bitset"
)

// problem is what packing solves at one time: units onto new nodes of the pools of one weight.
type problem struct {
	m     *model
	units []unit
	// weight of the pools.
	weight int32
	// may are the offers of these pools that are available.
	may bitset.Set
	// packing is the same in terms of items and bins: units that are alike are one item type.
	packing binpack.Problem
	bins    bins
	// of are the units of each item type.
	of [][]int
}

// item is n units on a node.
type item struct{ unit, n int }

// node is one node to launch, with its units.
type node struct {
	offer int
	items []item
	sum   vec
}

// solution is nodes and what they leave unplaced, by unit.
type solution struct {
	nodes []node
	left  []int
}

func (m *model) newProblem(units []unit, weight int32, b bins) *problem {
	p := &problem{m: m, units: units, weight: weight, may: m.market.available.Clone(), bins: b}
	var room [][]int64
	for pi := range m.market.pools {
		if m.market.pools[pi].Weight != weight {
			m.market.dropPool(p.may, pi)
		}
		var left []int64
		for _, l := range m.market.pools[pi].limits {
			left = append(left, l.max-l.used)
		}
		room = append(room, left)
	}
	p.packing.Bins, p.packing.Room, p.packing.Most = b.list, room, p.nodeLimit()
	p.findItems()
	return p
}

// findItems joins units that are alike to packing.
func (p *problem) findItems() {
	rules, index, choices := p.m.colocation.joinedRules(), map[string]int{}, choiceIndex{}
	var key []byte
	for ui := range p.units {
		u := &p.units[ui]
		if u.count == 0 {
			continue
		}
		fits := u.fits.Clone()
		fits.Intersect(p.may)
		it := binpack.ItemType{Need: binpack.Vec(u.need), Fits: p.bins.fits(fits, u.need[dimCPU]), Memberships: rules.of(u), Choices: choices.of(u)}
		for _, part := range u.parts {
			it.Pods += part.N
		}
		key = appendKey(key[:0], &it)
		i, ok := index[string(key)]
		if !ok {
			i = len(p.packing.Items)
			index[string(key)] = i
			p.packing.Items, p.of = append(p.packing.Items, it), append(p.of, nil)
		}
		p.of[i] = append(p.of[i], ui)
		p.packing.Items[i].Count += u.count
	}
	for _, limit := range rules.limits {
		p.packing.Caps = append(p.packing.Caps, binpack.Cap{Limit: limit})
	}
}

// appendKey appends what distinguishes item types.
func appendKey(key []byte, it *binpack.ItemType) []byte {
	for _, n := range it.Need {
		key = binary.LittleEndian.AppendUint64(key, uint64(n))
	}
	key = binary.AppendUvarint(key, uint64(it.Pods))
	for _, x := range it.Fits {
		key = binary.LittleEndian.AppendUint64(key, x)
	}
	for _, x := range it.Memberships {
		key = binary.AppendUvarint(binary.AppendUvarint(key, uint64(x.Cap)), uint64(x.Weight)*2+1)
		if x.Subject {
			key = append(key, 's')
		}
	}
	for pool, list := range it.Choices {
		key = binary.AppendUvarint(binary.AppendUvarint(key, uint64(pool)), uint64(len(list)))
		for _, c := range list {
			key = binary.AppendUvarint(binary.AppendUvarint(key, uint64(c.Key)), uint64(c.Value))
		}
	}
	return key
}

// choiceIndex numbers label keys and what units demand of them.
type choiceIndex struct{ keys, values map[string]int }

// of are the demands of a unit, by pool; nil for none.
func (x *choiceIndex) of(u *unit) [][]binpack.Choice {
	if modest(u.demands) {
		return nil
	}
	if x.keys == nil {
		x.keys, x.values = map[string]int{}, map[string]int{}
	}
	out := make([][]binpack.Choice, len(u.demands))
	for pi, d := range u.demands {
		for _, k := range sortedKeys(d) {
			text := d[k].String()
			if d[k].Absent {
				text += "-"
			}
			out[pi] = append(out[pi], binpack.Choice{Key: number(x.keys, k), Value: number(x.values, text)})
		}
		slices.SortFunc(out[pi], func(a, b binpack.Choice) int { return cmp.Compare(a.Key, b.Key) })
	}
	return out
}

// number is the text's index, the next free one where it has none.
func number(index map[string]int, text string) int {
	n, ok := index[text]
	if !ok {
		n = len(index)
		index[text] = n
	}
	return n
}

// joined are the node rules, those with the same members and limit as one: their subjects are as good as one.
type joined struct {
	members  []bitset.Set
	subjects []bitset.Set
	limits   []int
}

func (co *colocation) joinedRules() *joined {
	j, index := &joined{}, map[string]int{}
	var key []byte
	for _, r := range co.nodeRules {
		key = binary.AppendUvarint(key[:0], uint64(r.Limit))
		for _, x := range r.Members {
			key = binary.LittleEndian.AppendUint64(key, x)
		}
		i, ok := index[string(key)]
		if !ok {
			i = len(j.limits)
			index[string(key)] = i
			j.members, j.subjects, j.limits = append(j.members, r.Members), append(j.subjects, bitset.New(len(co.classes))), append(j.limits, r.Limit)
		}
		j.subjects[i].Add(r.Subject)
	}
	return j
}

// of lists what the unit is to the rules that concern it.
func (j *joined) of(u *unit) []binpack.Membership {
	var out []binpack.Membership
	for i := range j.limits {
		w := binpack.Membership{Cap: i}
		for _, part := range u.parts {
			w.Subject = w.Subject || j.subjects[i].Has(part.Class)
			if j.members[i].Has(part.Class) {
				w.Weight += part.N
			}
		}
		if w.Subject || w.Weight > 0 {
			out = append(out, w)
		}
	}
	return out
}

// cost is USD per hour.
func (p *problem) cost(nodes []node) float64 {
	// Summed in the order of prices, so that the order of nodes does not change the last digit.
	prices := make([]float64, len(nodes))
	for i := range nodes {
		prices[i] = p.m.market.offers[nodes[i].offer].cost(nodes[i].sum)
	}
	return sorted(prices)
}

// sorted is the sum in the order of size.
func sorted(prices []float64) float64 {
	slices.Sort(prices)
	sum := 0.0
	for _, x := range prices {
		sum += x
	}
	return sum
}

// split names the units of the boxes' items.
func (p *problem) split(boxes []binpack.Box) solution {
	s := solution{left: make([]int, len(p.units))}
	for ui := range p.units {
		s.left[ui] = p.units[ui].count
	}
	next := make([]int, len(p.of))
	for _, b := range boxes {
		n := node{offer: p.bins.offer(b.Bin), sum: make(vec, len(p.m.dims))}
		for _, it := range b.Items {
			for c := it.N; c > 0; {
				ui := p.of[it.Type][next[it.Type]]
				take := min(c, s.left[ui])
				if take > 0 {
					n.items = append(n.items, item{ui, take})
					n.sum.add(p.units[ui].need, int64(take))
					s.left[ui] -= take
					c -= take
				}
				if s.left[ui] == 0 {
					next[it.Type]++
				}
			}
		}
		slices.SortFunc(n.items, compareItems)
		s.nodes = append(s.nodes, n)
	}
	return s
}

// batchSize is how many pods the classes have.
func batchSize(classes []class) int {
	n := 0
	for i := range classes {
		n += len(classes[i].refs)
	}
	return n
}

// nodeLimit is how many pods one node may hold by Options.NodeShare; 0 for any number.
func (p *problem) nodeLimit() int64 {
	share := p.m.in.Options.NodeShare
	if share <= 0 || share >= 1 {
		return 0
	}
	limit := max(int64(share*float64(batchSize(p.m.classes))), 1)
	for ui := range p.units {
		limit = max(limit, p.units[ui].need[dimPods])
	}
	return limit
}
