package binpack

import (
	"math"
	"slices"
)

// maxColumns is how many columns are kept.
const maxColumns = 3000

// column is a pattern in the covering program; a surplus column (bin -1) gives one item of its only row back.
type column struct {
	bin   int
	cost  float64
	items []Item
}

// valuePerDollar returns the value of the column per dollar: its reduced cost is negative if and only if that is above 1.
func (c *column) valuePerDollar(pi []float64) float64 {
	return worth(c.items, pi) / charged(c.cost)
}

// master is the covering program in the revised simplex method: as few dollars as possible for patterns, taken fractional
// times, that hold all items. Its duals are what one more of each item type costs in the best mix (Gilmore and Gomory 1961).
type master struct {
	work  *meter
	rows  []int // item type of each row
	row   []int // row of each item type, -1 for none
	basis []column
	inv   [][]float64
	level []float64
	pool  []column
	// most is how many columns are kept.
	most int
	// cells is how many values the last solve looked at, cellSpeed of them a step of work; out is the row of the last pivot.
	cells, out int
	// partial are columns of the pool that may pay, by index: all are looked at only once none of these pays (partial pricing).
	partial []int
	// scratch
	duals, step, ratios []float64
	some                []int
}

const (
	// refresh is after how many pivots the duals are computed from nothing.
	refresh = 64
	// partialPricing is how many columns are looked at before all are again.

	partialPricing = 16
)

// cost returns what the last solution costs.
func (m *master) cost() float64 {
	sum := 0.0
	for r := range m.basis {
		sum += m.basis[r].cost * m.level[r]
	}
	return sum
}

// trim drops the columns with the least value per dollar.
func (m *master) trim(pi []float64) {
	if len(m.pool) <= m.most {
		return
	}
	ratios := make([]float64, len(m.pool))
	for i := range m.pool {
		ratios[i] = m.pool[i].valuePerDollar(pi)
	}
	limit := slices.Sorted(slices.Values(ratios))[len(ratios)-m.most/2]
	out := m.pool[:0]
	for i, c := range m.pool {
		if ratios[i] >= limit {
			out = append(out, c)
		}
	}
	m.pool = out
}

// newMaster starts from the cheapest bin filled with each item type alone.
func newMaster(k *packer, counts []int) *master {
	m := &master{work: &k.work, row: make([]int, len(counts)), most: maxColumns}
	for ui, n := range counts {
		m.row[ui] = -1
		best, bestCost, bestFit := -1, math.Inf(1), 0
		for bi := range k.bins {
			if n == 0 {
				continue
			}
			if fit := min(int(k.held(bi)[ui]), n); fit > 0 && k.bins[bi].price/float64(fit) < bestCost {
				best, bestCost, bestFit = bi, k.bins[bi].price/float64(fit), fit
			}
		}
		if best < 0 {
			continue
		}
		m.row[ui] = len(m.rows)
		m.rows = append(m.rows, ui)
		m.basis = append(m.basis, column{bin: best, cost: k.bins[best].price, items: []Item{{ui, bestFit}}})
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
	m.partial = m.partial[:0]
	exact := false
	// Fewer pivots than twenty per row reach the optimum but for cycling. The basis is a solution after each.
	counted := 0
	for pivots := range 20*len(m.rows) + 200 {
		m.work.add(m.cells/cellSpeed - counted)
		if counted = m.cells / cellSpeed; m.work.spent() {
			break
		}
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
			m.work.add(m.cells/cellSpeed - counted)
			return
		}
		m.moveDuals(enter, pi)
		exact = false
	}
	m.findDuals(pi)
	m.work.add(m.cells/cellSpeed - counted)
}

// findDuals computes the duals: the costs of the basis times its inverse.
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

// moveDuals has the duals follow the pivot that brought the column in: it now pays for itself exactly.
func (m *master) moveDuals(c column, pi []float64) {
	more := c.cost - worth(c.items, pi)
	for i, x := range m.inv[m.out] {
		if x != 0 {
			m.duals[i] += more * x
			pi[m.rows[i]] = m.duals[i]
		}
	}
}

// entering returns the column with the most value per dollar: of those that had the most when all were last looked at, while
// any of these pays.
func (m *master) entering(pi []float64) (column, bool) {
	const least = 1 + 1e-7
	best, bestRatio := -1, least
	for _, i := range m.partial {
		if ratio := m.pool[i].valuePerDollar(pi); ratio > bestRatio {
			best, bestRatio = i, ratio
		}
	}
	if best >= 0 {
		return m.pool[best], true
	}
	m.partial = m.partial[:0]
	m.cells += 8 * len(m.pool)
	ratios := m.ratios[:0]
	for i := range m.pool {
		ratio := m.pool[i].valuePerDollar(pi)
		if ratio <= least || len(ratios) == partialPricing && ratio <= ratios[partialPricing-1] {
			continue
		}
		at := len(ratios)
		for at > 0 && ratios[at-1] < ratio {
			at--
		}
		if len(ratios) == partialPricing {
			ratios, m.partial = ratios[:partialPricing-1], m.partial[:partialPricing-1]
		}
		ratios, m.partial = slices.Insert(ratios, at, ratio), slices.Insert(m.partial, at, i)
	}
	m.ratios = ratios
	if len(m.partial) > 0 {
		return m.pool[m.partial[0]], true
	}
	for i, d := range m.duals {
		if d < -1e-9 {
			return column{bin: -1, items: []Item{{m.rows[i], -1}}}, true
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
