package plan

import (
	"math"
	"slices"
)

// problem is what packing solves at one time: units onto new nodes of the pools of one weight.
type problem struct {
	m     *model
	units []unit
	// weight of the pools.
	weight int32
	// may are the offers of these pools that are available.
	may bits
	// caps are the node rules in terms of units; capsOf are those that concern a unit.
	caps   []unitCap
	capsOf [][]int
	// room is what the limits of each pool leave, in the order of its limits.
	room [][]int64
}

// unitCap limits the weight on a node that has a subject.
type unitCap struct {
	subject []bool
	weight  []int
	limit   int
}

// item is n units of one kind on a node.
type item struct{ unit, n int }

// node is one node to launch, as packing sees it.
type node struct {
	offer int
	items []item
	sum   vec
}

func (m *model) newProblem(units []unit, weight int32) *problem {
	p := &problem{m: m, units: units, weight: weight, may: m.available.clone(), capsOf: make([][]int, len(units))}
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
	for _, r := range m.nodeRules {
		c := unitCap{subject: make([]bool, len(units)), weight: make([]int, len(units)), limit: r.limit}
		for ui, u := range units {
			for _, part := range u.parts {
				c.subject[ui] = c.subject[ui] || part.class == r.subject
				if r.members.has(part.class) {
					c.weight[ui] += part.n
				}
			}
		}
		for ui := range units {
			if c.subject[ui] || c.weight[ui] > 0 {
				p.capsOf[ui] = append(p.capsOf[ui], len(p.caps))
			}
		}
		p.caps = append(p.caps, c)
	}
	return p
}

// more is how many units of ui may join the items on a node of the pool, by rules and demands, resources apart.
func (p *problem) more(items []item, ui, pool int) int {
	best := math.MaxInt32
	for _, ci := range p.capsOf[ui] {
		c := &p.caps[ci]
		subject, weight := c.subject[ui], 0
		for _, it := range items {
			subject = subject || c.subject[it.unit]
			weight += c.weight[it.unit] * it.n
		}
		switch w := c.weight[ui]; {
		case !subject:
		case weight+w > c.limit:
			return 0
		case w > 0:
			best = min(best, (c.limit-weight)/w)
		}
	}
	if len(p.units[ui].demands[pool]) > 0 {
		for _, it := range items {
			if demandsClash(p.units[ui].demands[pool], p.units[it.unit].demands[pool]) {
				return 0
			}
		}
	}
	return best
}

// affordable says that the limits have room for one more node of the offer.
func (p *problem) affordable(oi int, room [][]int64) bool {
	o := &p.m.offers[oi]
	for i, n := range p.m.types[o.shape].usage {
		if n > room[o.pool][i] {
			return false
		}
	}
	return true
}

// spend takes n nodes of the offer off the room that the limits leave.
func (p *problem) spend(oi, n int, room [][]int64) {
	o := &p.m.offers[oi]
	for i, used := range p.m.types[o.shape].usage {
		room[o.pool][i] -= used * int64(n)
	}
}

func (p *problem) cloneRoom() [][]int64 {
	out := make([][]int64, len(p.room))
	for i := range p.room {
		out[i] = slices.Clone(p.room[i])
	}
	return out
}

func (p *problem) counts() []int {
	out := make([]int, len(p.units))
	for i := range p.units {
		out[i] = p.units[i].count
	}
	return out
}

// solution is nodes and what they leave unplaced, by unit.
type solution struct {
	nodes []node
	left  []int
}

// cost is USD per hour.
func (p *problem) cost(nodes []node) float64 {
	// Summed in the order of prices, so that the order of nodes does not change the last digit.
	prices := make([]float64, len(nodes))
	for i := range nodes {
		prices[i] = p.m.offers[nodes[i].offer].Price
	}
	slices.Sort(prices)
	sum := 0.0
	for _, x := range prices {
		sum += x
	}
	return sum
}

// pods counts those that are left.
func (p *problem) pods(left []int) int {
	n := 0
	for ui, k := range left {
		for _, part := range p.units[ui].parts {
			n += k * part.n
		}
	}
	return n
}

// better says that a places more pods than b, or as many for less, or for as much on fewer nodes.
func (p *problem) better(a, b solution) bool {
	if x, y := p.pods(a.left), p.pods(b.left); x != y {
		return x < y
	}
	x, y := p.cost(a.nodes), p.cost(b.nodes)
	if math.Abs(x-y) > 1e-9 {
		return x < y
	}
	return len(a.nodes) < len(b.nodes)
}

// cheapest is the offer with the least price of those listed, by name where equal: the order of the list decides.
func (p *problem) cheapest(offers []int) int {
	best := -1
	for _, oi := range offers {
		if best < 0 || p.m.offers[oi].Price < p.m.offers[best].Price-1e-12 {
			best = oi
		}
	}
	return best
}
