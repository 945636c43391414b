package plan

import (
	"math"
	"slices"
)

// maxRows is the most units for which the covering program is solved; its cost rises with the square. Where there are
// more, most of them are small against a node, and the first prices do nearly as well.
const maxRows = 300

// column is a pattern in the covering program; a surplus column (lane -1) gives one unit of its only row back.
type column struct {
	lane  int
	cost  float64
	items []item
}

// master is the covering program in the revised simplex method: as few dollars as possible for patterns, taken fractional
// times, that hold all units. Its duals are what one more unit of each kind costs in the best mix.
type master struct {
	rows  []int // unit of each row
	row   []int // row of each unit, -1 for none
	basis []column
	inv   [][]float64
	level []float64
	pool  []column
}

// values prices the units by column generation: solve, price the units by the duals, look for nodes that hold more than
// they cost at these prices, again, until there is none or the rounds are used up. It returns the prices and the
// patterns of the last solution with their levels.
func (k *packer) values(counts []int, rounds int) ([]float64, []column, []float64) {
	if len(counts) > maxRows {
		return k.prices(), nil, nil
	}
	m := k.newMaster(counts)
	pi := make([]float64, len(k.p.units))
	for range rounds {
		m.solve(pi)
		found := false
		for li := range k.lanes {
			if k.relaxed(li, counts, pi, k.by[li]) <= k.lanes[li].price*(1+1e-6) {
				continue
			}
			pat := k.best(li, counts, pi, k.lanes[li].price*(1+1e-6))
			if pat.value > k.lanes[li].price*(1+1e-6)+1e-9 {
				m.pool = append(m.pool, column{lane: li, cost: k.lanes[li].price, items: slices.Clone(pat.items)})
				found = true
			}
		}
		if !found {
			break
		}
	}
	m.solve(pi)
	for ui := range pi {
		pi[ui] = max(pi[ui], 0)
	}
	return pi, m.basis, m.level
}

// newMaster starts from the cheapest node filled with each unit alone.
func (k *packer) newMaster(counts []int) *master {
	m := &master{row: make([]int, len(counts))}
	for ui, n := range counts {
		m.row[ui] = -1
		best, bestCost, bestFit := -1, math.Inf(1), 0
		for li := range k.lanes {
			if n == 0 || !k.lanes[li].takes.has(ui) {
				continue
			}
			if fit := k.atMost(li, ui, counts); fit > 0 && k.lanes[li].price/float64(fit) < bestCost {
				best, bestCost, bestFit = li, k.lanes[li].price/float64(fit), fit
			}
		}
		if best < 0 {
			continue
		}
		m.row[ui] = len(m.rows)
		m.rows = append(m.rows, ui)
		m.basis = append(m.basis, column{lane: best, cost: k.lanes[best].price, items: []item{{ui, bestFit}}})
		m.level = append(m.level, float64(n)/float64(bestFit))
	}
	for r := range m.rows {
		line := make([]float64, len(m.rows))
		line[r] = 1 / float64(m.basis[r].items[0].n)
		m.inv = append(m.inv, line)
	}
	return m
}

// solve pivots until no column of the pool and no surplus improves, and leaves the duals in pi.
func (m *master) solve(pi []float64) {
	duals := make([]float64, len(m.rows))
	for range 20*len(m.rows) + 200 {
		m.duals(duals, pi)
		enter, ok := m.entering(duals, pi)
		if !ok || !m.pivot(enter) {
			return
		}
	}
	m.duals(duals, pi)
}

// duals is the costs of the basis times its inverse.
func (m *master) duals(duals, pi []float64) {
	clear(duals)
	for r, c := range m.basis {
		if c.cost == 0 {
			continue
		}
		for i, x := range m.inv[r] {
			duals[i] += c.cost * x
		}
	}
	for i, ui := range m.rows {
		pi[ui] = duals[i]
	}
}

// entering is the column that gains the most per dollar.
func (m *master) entering(duals, pi []float64) (column, bool) {
	best, bestGain := column{}, 1+1e-7
	for _, c := range m.pool {
		value := 0.0
		for _, it := range c.items {
			value += float64(it.n) * pi[it.unit]
		}
		if gain := value / max(c.cost, 1e-6); gain > bestGain {
			best, bestGain = c, gain
		}
	}
	if best.items != nil {
		return best, true
	}
	for i, d := range duals {
		if d < -1e-9 {
			return column{lane: -1, items: []item{{m.rows[i], -1}}}, true
		}
	}
	return column{}, false
}

// pivot brings the column into the basis, in place of the one that reaches zero first.
func (m *master) pivot(c column) bool {
	step := make([]float64, len(m.rows))
	for r := range m.rows {
		for _, it := range c.items {
			if i := m.row[it.unit]; i >= 0 {
				step[r] += m.inv[r][i] * float64(it.n)
			}
		}
	}
	out, least := -1, math.Inf(1)
	for r, s := range step {
		if s > 1e-9 && m.level[r]/s < least-1e-12 {
			out, least = r, m.level[r]/s
		}
	}
	if out < 0 {
		return false
	}
	line := m.inv[out]
	for i := range line {
		line[i] /= step[out]
	}
	for r := range m.rows {
		if r == out || step[r] == 0 {
			continue
		}
		for i := range line {
			m.inv[r][i] -= step[r] * line[i]
		}
		m.level[r] = max(m.level[r]-step[r]*least, 0)
	}
	m.level[out], m.basis[out] = least, c
	return true
}
