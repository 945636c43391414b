package plan

import (
	"math"
	"slices"
)

// maxColumns is how many columns are kept.
const maxColumns = 3000

// column is a pattern in the covering program; a surplus column (lane -1) gives one unit of its only row back.
type column struct {
	lane  int
	cost  float64
	items []item
}

// gain is the value of the column per dollar.
func (c *column) gain(pi []float64) float64 {
	return worth(c.items, pi) / max(c.cost, 1e-6)
}

// worth is what the items are worth at the values.
func worth(items []item, pi []float64) float64 {
	value := 0.0
	for _, it := range items {
		value += float64(it.n) * pi[it.unit]
	}
	return value
}

// master is the covering program in the revised simplex method: as few dollars as possible for patterns, taken fractional
// times, that hold all kinds. Its duals are what one more of each kind costs in the best mix (Gilmore and Gomory 1961).
type master struct {
	rows  []int // kind of each row
	row   []int // row of each kind, -1 for none
	basis []column
	inv   [][]float64
	level []float64
	pool  []column
	// pivots of the last solve.
	pivots int
}

// cost is what the last solution costs.
func (m *master) cost() float64 {
	sum := 0.0
	for r := range m.basis {
		sum += m.basis[r].cost * m.level[r]
	}
	return sum
}

// trim forgets the columns that pay least.
func (m *master) trim(pi []float64) {
	if len(m.pool) <= maxColumns {
		return
	}
	gains := make([]float64, len(m.pool))
	for i := range m.pool {
		gains[i] = m.pool[i].gain(pi)
	}
	limit := slices.Sorted(slices.Values(gains))[len(gains)-maxColumns/2]
	out := m.pool[:0]
	for i, c := range m.pool {
		if gains[i] >= limit {
			out = append(out, c)
		}
	}
	m.pool = out
}

// newMaster starts from the cheapest node filled with each unit alone.
func (k *packer) newMaster(counts []int) *master {
	m := &master{row: make([]int, len(counts))}
	for ui, n := range counts {
		m.row[ui] = -1
		best, bestCost, bestFit := -1, math.Inf(1), 0
		for li := range k.lanes {
			if n == 0 {
				continue
			}
			if fit := min(int(k.held(li)[ui]), n); fit > 0 && k.lanes[li].price/float64(fit) < bestCost {
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
	m.pivots = 0
	for range 20*len(m.rows) + 200 {
		m.pivots++
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
	for i := range m.pool {
		if gain := m.pool[i].gain(pi); gain > bestGain {
			best, bestGain = m.pool[i], gain
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
