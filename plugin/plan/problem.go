package plan

import (
	"encoding/binary"
	"maps"
	"math"
	"slices"
	"strings"
)

// problem is what packing solves at one time: units onto new nodes of the pools of one weight.
type problem struct {
	m     *model
	units []unit
	// weight of the pools.
	weight int32
	// may are the offers of these pools that are available.
	may bits
	// room is what the limits of each pool leave, in the order of its limits.
	room [][]int64
	// asked are the dimensions that any unit needs: vecs of kinds, lanes and boxes have these alone, pods first.
	asked []int
	// kinds are the units that packing cannot tell apart, each as one; caps are the node rules in terms of kinds.
	kinds []kind
	caps  []kindCap
	// lanes are the offers worth considering, the cheapest first.
	lanes []lane
}

// kind is units that packing cannot tell apart: they need the same, fit the same offers and bear the same company.
type kind struct {
	need  vec
	units []int
	count int
	// pods of one unit.
	pods int
	// takes are the lanes that take one on an empty node.
	takes bits
	// caps are those that concern the kind.
	caps []int
	// demands as of its units; nil for none.
	demands []unitDemand
	// fits as of its units.
	fits bits
}

// kindCap limits the weight on a node that has a subject.
type kindCap struct {
	subject []bool
	weight  []int
	limit   int
}

// unitDemand is what a unit asks of the open keys of one pool.
type unitDemand struct {
	pool int
	text string
}

// item is n units, or n of a kind, on a node.
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

func (m *model) newProblem(units []unit, weight int32) *problem {
	p := &problem{m: m, units: units, weight: weight, may: m.available.clone()}
	for pi := range m.pools {
		if m.pools[pi].Weight != weight {
			m.dropPool(p.may, pi)
		}
		var room []int64
		for _, l := range m.pools[pi].limits {
			room = append(room, l.max-l.used)
		}
		p.room = append(p.room, room)
	}
	p.asked = []int{dimPods}
	for d := dimPods + 1; d < len(m.dims); d++ {
		if slices.ContainsFunc(units, func(u unit) bool { return u.count > 0 && u.need[d] > 0 }) {
			p.asked = append(p.asked, d)
		}
	}
	p.findKinds()
	p.findLanes()
	return p
}

// compact is the asked dimensions of v.
func (p *problem) compact(v vec) vec {
	out := make(vec, len(p.asked))
	for i, d := range p.asked {
		out[i] = v[d]
	}
	return out
}

// findKinds joins units that packing cannot tell apart.
func (p *problem) findKinds() {
	rules := p.m.joinedRules()
	index := map[string]int{}
	var weights [][]ruleWeight
	var key []byte
	for ui := range p.units {
		u := &p.units[ui]
		if u.count == 0 {
			continue
		}
		fits := u.fits.clone()
		fits.and(p.may)
		w, demands, pods := rules.of(u), demandsOf(u), 0
		for _, part := range u.parts {
			pods += part.n
		}
		key = key[:0]
		for _, d := range p.asked {
			key = binary.LittleEndian.AppendUint64(key, uint64(u.need[d]))
		}
		key = binary.AppendUvarint(key, uint64(pods))
		for _, x := range fits {
			key = binary.LittleEndian.AppendUint64(key, x)
		}
		for _, x := range w {
			key = binary.AppendUvarint(binary.AppendUvarint(key, uint64(x.rule)), uint64(x.weight)*2+1)
			if x.subject {
				key = append(key, 's')
			}
		}
		for _, d := range demands {
			key = append(binary.AppendUvarint(key, uint64(d.pool)), d.text...)
		}
		ki, ok := index[string(key)]
		if !ok {
			ki = len(p.kinds)
			index[string(key)] = ki
			p.kinds = append(p.kinds, kind{need: p.compact(u.need), pods: pods, demands: demands, fits: fits})
			weights = append(weights, w)
		}
		p.kinds[ki].units = append(p.kinds[ki].units, ui)
		p.kinds[ki].count += u.count
	}
	for _, limit := range rules.limits {
		p.caps = append(p.caps, kindCap{subject: make([]bool, len(p.kinds)), weight: make([]int, len(p.kinds)), limit: limit})
	}
	for ki, w := range weights {
		for _, x := range w {
			p.kinds[ki].caps = append(p.kinds[ki].caps, x.rule)
			p.caps[x.rule].subject[ki], p.caps[x.rule].weight[ki] = x.subject, x.weight
		}
	}
}

// demandsOf are the demands of a unit in a form that can be compared.
func demandsOf(u *unit) []unitDemand {
	var out []unitDemand
	for pi, d := range u.demands {
		if len(d) == 0 {
			continue
		}
		var text strings.Builder
		for _, k := range slices.Sorted(maps.Keys(d)) {
			text.WriteString(k + d[k].String())
			if d[k].Absent {
				text.WriteString("-")
			}
			text.WriteString("\n")
		}
		out = append(out, unitDemand{pool: pi, text: text.String()})
	}
	return out
}

// joined are the node rules, those with the same members and limit as one: their subjects are as good as one.
type joined struct {
	members  []bits
	subjects []bits
	limits   []int
}

// ruleWeight is what a unit is to a joined rule.
type ruleWeight struct {
	rule, weight int
	subject      bool
}

func (m *model) joinedRules() *joined {
	j, index := &joined{}, map[string]int{}
	var key []byte
	for _, r := range m.nodeRules {
		key = binary.AppendUvarint(key[:0], uint64(r.limit))
		for _, x := range r.members {
			key = binary.LittleEndian.AppendUint64(key, x)
		}
		i, ok := index[string(key)]
		if !ok {
			i = len(j.limits)
			index[string(key)] = i
			j.members, j.subjects, j.limits = append(j.members, r.members), append(j.subjects, newBits(len(m.classes))), append(j.limits, r.limit)
		}
		j.subjects[i].set(r.subject)
	}
	return j
}

// of lists the rules that concern the unit.
func (j *joined) of(u *unit) []ruleWeight {
	var out []ruleWeight
	for i := range j.limits {
		w := ruleWeight{rule: i}
		for _, part := range u.parts {
			w.subject = w.subject || j.subjects[i].has(part.class)
			if j.members[i].has(part.class) {
				w.weight += part.n
			}
		}
		if w.subject || w.weight > 0 {
			out = append(out, w)
		}
	}
	return out
}

// more is how many of a kind may join the items on a node of the pool, by rules and demands, resources apart.
func (p *problem) more(items []item, ki, pool int) int {
	best := math.MaxInt32
	for _, ci := range p.kinds[ki].caps {
		c := &p.caps[ci]
		subject, weight := c.subject[ki], 0
		for _, it := range items {
			subject = subject || c.subject[it.unit]
			weight += c.weight[it.unit] * it.n
		}
		switch w := c.weight[ki]; {
		case !subject:
		case weight+w > c.limit:
			return 0
		case w > 0:
			best = min(best, (c.limit-weight)/w)
		}
	}
	if len(p.kinds[ki].demands) > 0 {
		demands := p.units[p.kinds[ki].units[0]].demands[pool]
		for _, it := range items {
			if demandsClash(demands, p.units[p.kinds[it.unit].units[0]].demands[pool]) {
				return 0
			}
		}
	}
	return best
}

// free says that company is nobody's business for the kind.
func (k *kind) free() bool { return len(k.caps) == 0 && len(k.demands) == 0 }

func (p *problem) cloneRoom() [][]int64 {
	out := make([][]int64, len(p.room))
	for i := range p.room {
		out[i] = slices.Clone(p.room[i])
	}
	return out
}

func (p *problem) counts() []int {
	out := make([]int, len(p.kinds))
	for i := range p.kinds {
		out[i] = p.kinds[i].count
	}
	return out
}

// cost is USD per hour.
func (p *problem) cost(nodes []node) float64 {
	// Summed in the order of prices, so that the order of nodes does not change the last digit.
	prices := make([]float64, len(nodes))
	for i := range nodes {
		prices[i] = p.m.offers[nodes[i].offer].Price
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

// split names the units of the boxes' kinds.
func (p *problem) split(boxes []box) solution {
	s := solution{left: make([]int, len(p.units))}
	for ui := range p.units {
		s.left[ui] = p.units[ui].count
	}
	next := make([]int, len(p.kinds))
	for _, b := range boxes {
		n := node{offer: p.lanes[b.lane].offer, sum: make(vec, len(p.m.dims))}
		for _, it := range b.items {
			k := &p.kinds[it.unit]
			for c := it.n; c > 0; {
				ui := k.units[next[it.unit]]
				take := min(c, s.left[ui])
				if take > 0 {
					n.items = append(n.items, item{ui, take})
					n.sum.add(p.units[ui].need, int64(take))
					s.left[ui] -= take
					c -= take
				}
				if s.left[ui] == 0 {
					next[it.unit]++
				}
			}
		}
		slices.SortFunc(n.items, compareItems)
		s.nodes = append(s.nodes, n)
	}
	return s
}
