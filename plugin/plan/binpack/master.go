package binpack

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
	items []Item
}

// gain is the value of the column per dollar.
func (c *column) gain(pi []float64) float64 {
	return worth(c.items, pi) / charged(c.cost)
}

// worth is what the items are worth at the values.
func worth(items []Item, pi []float64) float64 {
	value := 0.0
	for _, it := range items {
		value += float64(it.N) * pi[it.Type]
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
	// cells is how many values the last solve looked at, out the row of the last pivot.
	cells, out int
	// hopeful are columns of the pool that may gain, by index.
	hopeful []int
	// scratch
	duals, step, gains []float64
	some               []int
}

const (
	// refresh is after how many pivots the duals are computed from nothing.
	refresh = 64
	// hopes is how many columns are looked at before all are again.
	hopes = 16
)

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
		m.basis = append(m.basis, column{lane: best, cost: k.lanes[best].price, items: []Item{{ui, bestFit}}})
		m.level = append(m.level, float64(n)/float64(bestFit))
	}
	for r := range m.rows {
		line := make([]float64, len(m.rows))
		line[r] = 1 / float64(m.basis[r].items[0].N)
		m.inv = append(m.inv, line)
	}
	m.duals, m.step = make([]float64, len(m.rows)), make([]float64, len(m.rows))
	return m
}

// solve pivots until no column of the pool and no surplus improves, and leaves the duals in pi.
func (m *master) solve(pi []float64) {
	m.cells = 0
	m.hopeful = m.hopeful[:0]
	exact := false
	for pivots := range 20*len(m.rows) + 200 {
		if pivots%refresh == 0 {
			m.findDuals(pi)
			exact = true
		}
		enter, ok := m.entering(pi)
		if !ok && !exact {
			m.findDuals(pi)
			enter, ok = m.entering(pi)
		}
		if !ok || !m.pivot(enter) {
			return
		}
		m.moveDuals(enter, pi)
		exact = false
	}
	m.findDuals(pi)
}

// findDuals is the costs of the basis times its inverse.
func (m *master) findDuals(pi []float64) {
	duals := m.duals
	clear(duals)
	m.cells += len(m.rows) * len(m.rows)
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

// moveDuals has the duals follow the pivot that brought the column in: it now gains nothing.
func (m *master) moveDuals(c column, pi []float64) {
	more := c.cost - worth(c.items, pi)
	for i, x := range m.inv[m.out] {
		if x != 0 {
			m.duals[i] += more * x
			pi[m.rows[i]] = m.duals[i]
		}
	}
}

// entering is the column that gains the most per dollar: of those that gained the most when all were last looked at, while
// any of these does.
func (m *master) entering(pi []float64) (column, bool) {
	const least = 1 + 1e-7
	best, bestGain := -1, least
	for _, i := range m.hopeful {
		if gain := m.pool[i].gain(pi); gain > bestGain {
			best, bestGain = i, gain
		}
	}
	if best >= 0 {
		return m.pool[best], true
	}
	m.hopeful = m.hopeful[:0]
	m.cells += 8 * len(m.pool)
	gains := m.gains[:0]
	for i := range m.pool {
		gain := m.pool[i].gain(pi)
		if gain <= least || len(gains) == hopes && gain <= gains[hopes-1] {
			continue
		}
		at := len(gains)
		for at > 0 && gains[at-1] < gain {
			at--
		}
		if len(gains) == hopes {
			gains, m.hopeful = gains[:hopes-1], m.hopeful[:hopes-1]
		}
		gains, m.hopeful = slices.Insert(gains, at, gain), slices.Insert(m.hopeful, at, i)
	}
	m.gains = gains
	if len(m.hopeful) > 0 {
		return m.pool[m.hopeful[0]], true
	}
	for i, d := range m.duals {
		if d < -1e-9 {
			return column{lane: -1, items: []Item{{m.rows[i], -1}}}, true
		}
	}
	return column{}, false
}

// pivot brings the column into the basis, in place of the one that reaches zero first.
func (m *master) pivot(c column) bool {
	step := m.step
	out, least := -1, math.Inf(1)
	for r, line := range m.inv {
		s := 0.0
		for _, it := range c.items {
			if i := m.row[it.Type]; i >= 0 {
				s += line[i] * float64(it.N)
			}
		}
		if step[r] = s; s > 1e-9 && m.level[r]/s < least-1e-12 {
			out, least = r, m.level[r]/s
		}
	}
	if out < 0 {
		return false
	}
	line, some := m.inv[out], m.some[:0]
	for i, x := range line {
		if line[i] = x / step[out]; math.Abs(x) > 1e-15 {
			some = append(some, i)
		}
	}
	m.some = some
	m.cells += len(line) * (len(some) + len(c.items))
	for r, other := range m.inv {
		s := step[r]
		if r == out || s == 0 {
			continue
		}
		if 2*len(some) < len(line) {
			for _, i := range some {
				other[i] -= s * line[i]
			}
		} else {
			for i, x := range line[:len(other)] {
				other[i] -= s * x
			}
		}
		m.level[r] = max(m.level[r]-s*least, 0)
	}
	m.level[out], m.basis[out], m.out = least, c, out
	return true
}
